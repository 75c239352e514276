package command

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// secretReference is a secret in a spec: ${env:NAME}. It stays a reference in
// plans and messages and is looked up only when an object is written.
var secretReference = regexp.MustCompile(`\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

// checkSecrets refuses a plan whose secrets are not all in the environment,
// before anything is written.
func checkSecrets(p *plan.Plan, s Streams) error {
	var missing []string
	for _, c := range p.Changes {
		if parameter, ok := c.After.(*topology.Parameter); ok {
			_, more := resolveSecrets(parameter.Value, s)
			missing = append(missing, more...)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return usagef("the spec takes secrets from environment variables that are not set: %v; nothing was changed", slices.Compact(missing))
}

// secretWriter puts secrets in the place of their references as late as can be.
type secretWriter struct {
	apply.Broker
	streams Streams
}

// Create implements apply.Broker.
func (w secretWriter) Create(ctx context.Context, o topology.Object) error {
	resolved, err := w.resolved(o)
	if err != nil {
		return err
	}
	return w.hide(w.Broker.Create(ctx, resolved), o)
}

// Update implements apply.Broker.
func (w secretWriter) Update(ctx context.Context, o topology.Object) error {
	resolved, err := w.resolved(o)
	if err != nil {
		return err
	}
	return w.hide(w.Broker.Update(ctx, resolved), o)
}

// hiddenError is an error of the broker in which it repeats a secret that it was sent.
type hiddenError struct {
	error
	text string
}

func (e *hiddenError) Error() string { return e.text }

func (e *hiddenError) Unwrap() error { return e.error }

// hide takes the secrets of an object out of what the broker says of it.
func (w secretWriter) hide(err error, o topology.Object) error {
	parameter, ok := o.(*topology.Parameter)
	if err == nil || !ok {
		return err
	}
	text := err.Error()
	for _, m := range secretReference.FindAllStringSubmatch(topology.Text(parameter.Value), -1) {
		if value := w.streams.getenv(m[1]); value != "" {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	if text == err.Error() {
		return err
	}
	return &hiddenError{err, text}
}

func (w secretWriter) resolved(o topology.Object) (topology.Object, error) {
	parameter, ok := o.(*topology.Parameter)
	if !ok {
		return o, nil
	}
	value, missing := resolveSecrets(parameter.Value, w.streams)
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s: the environment variable %s is not set", o.Key(), missing[0])
	}
	c := *parameter
	c.Value = value
	return &c, nil
}

// resolveSecrets replaces the references in a value and lists the variables that
// are not set.
func resolveSecrets(v any, s Streams) (resolved any, missing []string) {
	switch v := v.(type) {
	case string:
		return secretReference.ReplaceAllStringFunc(v, func(reference string) string {
			name := secretReference.FindStringSubmatch(reference)[1]
			value := s.getenv(name)
			if value == "" {
				missing = append(missing, name)
			}
			return value
		}), missing
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			r, more := resolveSecrets(e, s)
			list[i], missing = r, append(missing, more...)
		}
		return list, missing
	case map[string]any:
		table := make(map[string]any, len(v))
		for k, e := range v {
			r, more := resolveSecrets(e, s)
			table[k], missing = r, append(missing, more...)
		}
		return table, missing
	}
	return v, nil
}
