package plan

import (
	"fmt"
	"reflect"
	"strings"
)

// schemaChecker knows the part of JSON Schema that docs/plan.schema.json uses.
type schemaChecker struct {
	root   map[string]any
	errors []string
}

func (s *schemaChecker) fail(path, format string, args ...any) {
	s.errors = append(s.errors, path+": "+fmt.Sprintf(format, args...))
}

func (s *schemaChecker) check(schema map[string]any, v any, path string) {
	for keyword, want := range schema {
		switch keyword {
		case "$ref":
			at := any(s.root)
			for _, part := range strings.Split(strings.TrimPrefix(want.(string), "#/"), "/") {
				at = at.(map[string]any)[part]
			}
			s.check(at.(map[string]any), v, path)
		case "type":
			s.checkType(want, v, path)
		case "enum":
			found := false
			for _, e := range want.([]any) {
				found = found || reflect.DeepEqual(e, v)
			}
			if !found {
				s.fail(path, "%v is none of %v", v, want)
			}
		case "pattern", "$schema", "$id", "title", "description", "$defs":
		case "required":
			if o, ok := v.(map[string]any); ok {
				for _, name := range want.([]any) {
					if _, ok := o[name.(string)]; !ok {
						s.fail(path, "%s is missing", name)
					}
				}
			}
		case "properties":
			if o, ok := v.(map[string]any); ok {
				for name, sub := range want.(map[string]any) {
					if e, ok := o[name]; ok {
						s.check(sub.(map[string]any), e, path+"."+name)
					}
				}
			}
		case "additionalProperties":
			s.checkAdditional(schema, want, v, path)
		case "items":
			if list, ok := v.([]any); ok {
				for i, e := range list {
					s.check(want.(map[string]any), e, fmt.Sprintf("%s[%d]", path, i))
				}
			}
		case "anyOf":
			ok := false
			for _, sub := range want.([]any) {
				probe := schemaChecker{root: s.root}
				probe.check(sub.(map[string]any), v, path)
				ok = ok || len(probe.errors) == 0
			}
			if !ok {
				s.fail(path, "matches none of the forms")
			}
		default:
			s.fail(path, "the test does not know the keyword %q", keyword)
		}
	}
}

func (s *schemaChecker) checkAdditional(schema map[string]any, want, v any, path string) {
	sub, isSchema := want.(map[string]any)
	o, isObject := v.(map[string]any)
	if !isSchema || !isObject {
		return
	}
	known, _ := schema["properties"].(map[string]any)
	for name, e := range o {
		if _, ok := known[name]; !ok {
			s.check(sub, e, path+"."+name)
		}
	}
}

func (s *schemaChecker) checkType(want, v any, path string) {
	types, ok := want.([]any)
	if !ok {
		types = []any{want}
	}
	for _, t := range types {
		switch v := v.(type) {
		case nil:
			ok = t == "null"
		case bool:
			ok = t == "boolean"
		case string:
			ok = t == "string"
		case float64:
			ok = t == "number" || t == "integer" && v == float64(int64(v))
		case []any:
			ok = t == "array"
		case map[string]any:
			ok = t == "object"
		}
		if ok {
			return
		}
	}
	s.fail(path, "%v is no %v", v, want)
}
