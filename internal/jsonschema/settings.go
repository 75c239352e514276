package jsonschema

import (
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
)

// settings are the settings of queues, also under RabbitMQ's name where a spec
// has another one.
func settings() []key {
	var keys []key
	for i := range catalog.Settings {
		s := &catalog.Settings[i]
		if s.Exchange {
			continue
		}
		keys = append(keys, key{s.SpecKey(), setting(s), settingDoc(s)})
		if name := strings.ReplaceAll(s.Name, "-", "_"); name != s.SpecKey() {
			keys = append(keys, key{name, setting(s), "The same as " + s.SpecKey() + "."})
		}
	}
	return keys
}

func settingDoc(s *catalog.Setting) string {
	doc := s.Doc
	if !s.Deprecated.IsZero() {
		doc += fmt.Sprintf(" Deprecated from RabbitMQ %s on.", s.Deprecated)
	}
	return doc + " " + s.URL
}

// setting is what a spec may write for a setting on any queue type and version.
func setting(s *catalog.Setting) schema {
	switch s.Value {
	case catalog.Any:
		return schema{}
	case catalog.Boolean:
		return boolean()
	case catalog.Text:
		if s.Enum != nil {
			return word(s.Enum...)
		}
		return text()
	case catalog.Age:
		return matching(ageForm, durationForm)
	case catalog.Milliseconds, catalog.Seconds:
		return duration()
	case catalog.Bytes:
		size := integer(s.Min, s.Max)
		size["pattern"] = "^" + sizeForm + "$|" + placeholder
		return size
	}
	number := integer(s.Min, s.Max)
	if s.Name == "delivery-limit" {
		number["pattern"] = "^unlimited$|" + placeholder
	}
	return number
}

// delayedRetry groups three settings.
func delayedRetry() schema {
	var keys []key
	for _, name := range []string{"type", "min", "max"} {
		if s := catalog.Lookup("delayed-retry-" + name); s != nil {
			keys = append(keys, key{name, setting(s), s.Doc})
		}
	}
	return object(keys...)
}

// settingsBy is a word for all settings, or a map of settings to words.
func settingsBy() schema {
	keys := []key{{"default", by(), "For all settings that are not named."}}
	for i := range catalog.Settings {
		if s := &catalog.Settings[i]; !s.Exchange {
			keys = append(keys, key{s.SpecKey(), by(), ""})
			if name := strings.ReplaceAll(s.Name, "-", "_"); name != s.SpecKey() {
				keys = append(keys, key{name, by(), ""})
			}
		}
	}
	return either(by(), table(keys...))
}

// exchangeArguments are the arguments of exchanges that have a key of their own.
func exchangeArguments() []key {
	var keys []key
	for i := range catalog.ExchangeArguments {
		a := &catalog.ExchangeArguments[i]
		value := text()
		switch {
		case a.Value == catalog.Integer:
			value = integer(a.Min, 0)
		case a.Enum != nil:
			value = word(a.Enum...)
		}
		name := strings.ReplaceAll(strings.TrimPrefix(a.Name, "x-"), "-", "_")
		keys = append(keys, key{name, value, a.Doc + " " + a.URL})
	}
	return keys
}

// policyDefinition names RabbitMQ's keys for editors to complete; plugins may have
// more, and what a value must be depends on the version.
func policyDefinition() schema {
	properties := schema{}
	for i := range catalog.Settings {
		if s := &catalog.Settings[i]; s.PolicyKey != "" {
			properties[s.PolicyKey] = schema{"description": settingDoc(s)}
		}
	}
	return typed("object", schema{"properties": properties})
}
