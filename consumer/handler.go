package consumer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// Handler works on one delivery. Its context ends when the consumer is stopped and
// the time to stop is over. It is called from as many goroutines as Concurrency says.
type Handler func(ctx context.Context, d *Delivery) Outcome

// JSON decodes each body as one JSON value before it calls the handler. Bodies that are
// none are settled as OnDecodeError says.
func JSON[T any](handle func(ctx context.Context, value T, d *Delivery) Outcome) Handler {
	return Typed(decodeJSON[T], handle)
}

func decodeJSON[T any](body []byte) (T, error) {
	var value T
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&value); err != nil {
		return value, fmt.Errorf("decode JSON: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return value, fmt.Errorf("decode JSON: more than one value")
	}
	return value, nil
}

// Typed decodes each body with a function of the caller's before it calls the handler.
// Bodies that it refuses are settled as OnDecodeError says.
func Typed[T any](decode func(body []byte) (T, error), handle func(ctx context.Context, value T, d *Delivery) Outcome) Handler {
	return func(ctx context.Context, d *Delivery) Outcome {
		value, err := decode(d.Body)
		if err != nil {
			return Outcome{kind: outcomeUndecodable, err: err}
		}
		return handle(ctx, value, d)
	}
}

// Func is for handlers that return an error: nil is Ack, anything else is settled as
// OnError says.
func Func(handle func(ctx context.Context, d *Delivery) error) Handler {
	return func(ctx context.Context, d *Delivery) Outcome {
		if err := handle(ctx, d); err != nil {
			return Outcome{kind: outcomeFailed, err: err}
		}
		return Ack()
	}
}
