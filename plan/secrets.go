package plan

import (
	"regexp"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// masked stands for a secret. Secrets are never shown, saved or hashed.
const masked = "***"

var (
	// userinfo finds user:password@ in a URI, up to the last @: a password may
	// hold anything.
	userinfo = regexp.MustCompile(`(://[^/?#\s:@]*:)(\S*)@`)
	// secretQuery finds password=... in a URI's query.
	secretQuery = regexp.MustCompile(`(?i)([?&](?:password|passwd|secret|token|key_password)=)([^&#\s]*)`)
	secretName  = regexp.MustCompile(`(?i)passw|secret|token|credential`)
	reference   = regexp.MustCompile(`\$\{env:[^{}]*\}`)
)

// mask replaces secrets in a value; references such as ${env:NAME} stay, they are
// no secrets. changed reports whether anything was replaced.
func mask(v any) (safe any, changed bool) {
	switch v := v.(type) {
	case string:
		s := maskText(v)
		return s, s != v
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			m, c := mask(e)
			list[i], changed = m, changed || c
		}
		return list, changed
	case map[string]any:
		table := make(map[string]any, len(v))
		for k, e := range v {
			m, c := mask(e)
			if s, ok := m.(string); ok && secretName.MatchString(k) && s != "" && reference.ReplaceAllString(s, "") != "" {
				m, c = masked, s != masked
			}
			table[k], changed = m, changed || c
		}
		return table, changed
	}
	return v, false
}

func maskText(s string) string {
	hide := func(groups []string, tail string) string {
		if groups[2] == "" || reference.ReplaceAllString(groups[2], "") == "" {
			return groups[0]
		}
		return groups[1] + masked + tail
	}
	s = userinfo.ReplaceAllStringFunc(s, func(m string) string { return hide(userinfo.FindStringSubmatch(m), "@") })
	return secretQuery.ReplaceAllStringFunc(s, func(m string) string { return hide(secretQuery.FindStringSubmatch(m), "") })
}

func maskFields(fields []Field) []Field {
	for i := range fields {
		fields[i].Old, _ = mask(fields[i].Old)
		fields[i].New, _ = mask(fields[i].New)
	}
	return fields
}

// matchesReference reports whether a text with references could have become the
// given one.
func matchesReference(text, value string) bool {
	parts := reference.Split(text, -1)
	if len(parts) == 1 {
		return text == value
	}
	rest, ok := strings.CutPrefix(value, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, p)
		if at < 0 {
			return false
		}
		rest = rest[at+len(p):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// changedSecret finds a parameter whose references have other values now than those
// that the broker holds.
func (c *computation) changedSecret(want, have topology.Object) []Field {
	w, ok := want.(*topology.Parameter)
	h, also := have.(*topology.Parameter)
	if !ok || !also || c.in.Secret == nil {
		return nil
	}
	value, known := c.in.Secret(w.Value)
	if !known || topology.Equal(value, h.Value) {
		return nil
	}
	return []Field{{Name: "value", Old: h.Value, New: w.Value}}
}

// RawSecrets lists the changes whose desired object holds a secret as it is and
// not as a reference. Such a plan must not be saved: Marshal masks the secret, and
// Unmarshal refuses what was masked.
func (p *Plan) RawSecrets() []topology.Key {
	var keys []topology.Key
	for _, c := range p.Changes {
		if parameter, ok := c.After.(*topology.Parameter); ok {
			if _, secret := mask(parameter.Value); secret {
				keys = append(keys, c.Key)
			}
		}
	}
	return keys
}
