package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// scanner walks one level of a JSON document and knows the place of each value.
// It counts lines and columns as it goes, once over the data.
type scanner struct {
	file         string
	data         []byte
	offset       int // of line and column, from the start of data
	line, column int // columns count characters
	err          error
	errOffset    int
}

// object calls f for each member; false: not a JSON object.
func (s *scanner) object(f func(key string, value json.RawMessage, at topology.Position)) bool {
	return s.walk('{', func(d *json.Decoder) error {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		value, at, err := s.value(d)
		if err == nil {
			f(name, value, at)
		}
		return err
	})
}

// list calls f for each item; false: not a JSON list.
func (s *scanner) list(f func(item json.RawMessage, at topology.Position)) bool {
	return s.walk('[', func(d *json.Decoder) error {
		item, at, err := s.value(d)
		if err == nil {
			f(item, at)
		}
		return err
	})
}

func (s *scanner) walk(open json.Delim, each func(*json.Decoder) error) bool {
	d := json.NewDecoder(bytes.NewReader(s.data))
	token, err := d.Token()
	if err == nil && token != open {
		s.fail(d, fmt.Errorf("it must begin with %s", open))
		return false
	}
	for err == nil && d.More() {
		err = each(d)
	}
	if err == nil {
		_, err = d.Token() // the end
	}
	if err == nil && len(bytes.TrimSpace(s.data[d.InputOffset():])) > 0 {
		err = errors.New("there is more text after the end")
	}
	if err != nil {
		s.fail(d, err)
	}
	return err == nil
}

// value reads the next value and finds where it begins.
func (s *scanner) value(d *json.Decoder) (json.RawMessage, topology.Position, error) {
	from := int(d.InputOffset())
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return nil, topology.Position{}, err
	}
	for from < len(s.data) && bytes.IndexByte([]byte(" \t\r\n,:"), s.data[from]) >= 0 {
		from++
	}
	return raw, s.at(from), nil
}

// at is the place of an offset, which must not be before the last one asked for.
func (s *scanner) at(offset int) topology.Position {
	offset = min(offset, len(s.data))
	for s.offset < offset {
		if s.data[s.offset] == '\n' {
			s.line, s.column = s.line+1, 1
			s.offset++
			continue
		}
		_, n := utf8.DecodeRune(s.data[s.offset:])
		s.offset += n
		s.column++
	}
	return topology.Position{File: s.file, Line: s.line, Column: s.column}
}

// fail remembers the error. A Decoder does not tell where in the data it met it,
// json.Unmarshal does.
func (s *scanner) fail(d *json.Decoder, err error) {
	s.err, s.errOffset = err, int(d.InputOffset())
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(s.data, &raw), &syntax) {
		s.err, s.errOffset = syntax, max(int(syntax.Offset)-1, 0)
	}
}

func (s *scanner) errorAt() topology.Position { return s.at(s.errOffset) }

func (s *scanner) problem() string {
	switch s.err.Error() {
	case "EOF", "unexpected EOF", "unexpected end of JSON input":
		return "it ends too early"
	}
	return s.err.Error()
}

// typeProblem says what is wrong with a value, without Go's type names.
func typeProblem(err error) string {
	var form *json.UnmarshalTypeError
	if !errors.As(err, &form) {
		return err.Error()
	}
	want := map[string]string{"string": "a text", "json.Number": "a number"}[form.Type.String()]
	if want == "" {
		want = map[string]string{"struct": "a table", "slice": "a list", "map": "a table", "ptr": "another type"}[form.Type.Kind().String()]
	}
	if want == "" {
		want = "another type"
	}
	if form.Field == "" {
		return fmt.Sprintf("a %s, where %s is wanted", form.Value, want)
	}
	return fmt.Sprintf("%q is a %s, where %s is wanted", form.Field, form.Value, want)
}
