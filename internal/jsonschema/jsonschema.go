// Package jsonschema makes the JSON Schema of the spec language, by which editors
// complete and check specs. The settings come from internal/catalog, everything
// else from one table of the language's keys (language.go). The schema rejects
// unknown keys, values of a wrong kind and unknown words; what a spec means is
// for rabbitctl validate.
package jsonschema

//go:generate go run ./write ../../docs/spec.schema.json

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// URL is where the schema of the newest release is.
const URL = "https://raw.githubusercontent.com/rabbitctl/rabbitctl/main/docs/spec.schema.json"

// Modeline is the comment at the top of a spec by which editors find the schema.
const Modeline = "# yaml-language-server: $schema=" + URL

// Spec is the schema as JSON text. It is draft-07, the newest that the common
// YAML editors know in full.
func Spec() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(document()); err != nil {
		panic(fmt.Sprintf("jsonschema: %v", err)) // maps, lists, texts and numbers only
	}
	return b.Bytes()
}

// schema is a JSON Schema, or a part of one.
type schema map[string]any

// placeholder matches a text with a variable, ${name}, or a value of for_each,
// {name}. It may stand for a value of any kind.
const placeholder = `\{`

// typed is a value of one JSON type.
func typed(name string, more schema) schema {
	s := schema{"type": []string{name, "string"}, "pattern": placeholder}
	maps.Copy(s, more)
	return s
}

func text() schema    { return schema{"type": []string{"string"}} }
func boolean() schema { return typed("boolean", nil) }

// matching is a text of one of some forms, not empty.
func matching(forms ...string) schema {
	s := text()
	pattern := placeholder
	for _, f := range forms {
		pattern = "^" + f + "$|" + pattern
	}
	s["pattern"], s["minLength"] = pattern, 1
	return s
}

// The forms of durations, sizes and RabbitMQ's ages (docs/specs.md, Values).
const (
	durationForm = `([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?`
	sizeForm     = `[0-9]+ ?(B|[kKMGT]B|[KMGT]iB)?`
	ageForm      = `[0-9]+[YMDhms]`
)

func duration() schema { return matching(durationForm) }

// integer is a whole number of at least lo; hi 0 is no bound.
func integer(lo, hi int64) schema {
	s := typed("integer", schema{"minimum": lo})
	if hi != 0 {
		s["maximum"] = hi
	}
	return s
}

// word is one of a few words.
func word[S ~string](words ...S) schema {
	return schema{"anyOf": []schema{{"enum": words}, {"type": "string", "pattern": placeholder}}}
}

func list(of schema) schema { return typed("array", schema{"items": of}) }

// named is a map of names to values.
func named(of schema) schema { return typed("object", schema{"additionalProperties": of}) }

// free is a map of anything: RabbitMQ or an application gives it its meaning.
func free() schema { return typed("object", nil) }

func ref(name string) schema { return schema{"$ref": "#/definitions/" + name} }

// either is one of two forms of a value.
func either(a, b schema) schema { return schema{"anyOf": []schema{a, b}} }

// orNull also takes null: in an overlay, or over defaults, it takes a key away.
func orNull(s schema) schema {
	switch {
	case s["type"] != nil:
		types := s["type"].([]string)
		if slices.Contains(types, "null") {
			return s
		}
		c := maps.Clone(s)
		c["type"] = append(slices.Clone(types), "null")
		return c
	case s["anyOf"] != nil:
		c := maps.Clone(s)
		c["anyOf"] = append(slices.Clone(s["anyOf"].([]schema)), schema{"type": "null"})
		return c
	case s["$ref"] != nil:
		return schema{"anyOf": []schema{s, {"type": "null"}}}
	}
	return s
}

// key is a key of a map in a spec.
type key struct {
	name  string
	value schema
	doc   string
}

// table is a map with known keys.
func table(keys ...key) schema {
	return keyed(func(s schema) schema { return s }, keys)
}

// object is a table that overlays merge, so that its keys may be null.
func object(keys ...key) schema { return orNull(keyed(orNull, keys)) }

func keyed(each func(schema) schema, keys []key) schema {
	properties := schema{}
	for _, k := range keys {
		properties[k.name] = described(each(k.value), k.doc)
	}
	return typed("object", schema{
		"properties": properties, "additionalProperties": false,
		"patternProperties": schema{placeholder: true}, // a name that a variable gives
	})
}

// described is a schema with a description; draft-07 wants it beside, not inside,
// a reference.
func described(s schema, doc string) schema {
	if doc == "" {
		return s
	}
	if s["$ref"] != nil {
		return schema{"allOf": []schema{s}, "description": doc}
	}
	c := maps.Clone(s)
	c["description"] = doc
	return c
}

// require adds the names of keys that must be there.
func require(s schema, names ...string) schema {
	s["required"] = names
	return s
}
