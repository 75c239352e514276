package export

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// What holds a secret in a parameter: user:password@ in a URI up to the last @,
// password=... in its query, and keys with such a name. plan masks the same.
var (
	userinfo    = regexp.MustCompile(`(://[^/?#\s:@]*:)(\S+)@`)
	secretQuery = regexp.MustCompile(`(?i)([?&](?:password|passwd|secret|token|key_password)=)([^&#\s]+)`)
	secretKey   = regexp.MustCompile(`(?i)passw|secret|token|credential`)
	notName     = regexp.MustCompile(`[^A-Z0-9]+`)
)

// secretNames are the names of variables that are taken.
type secretNames map[string]string

// value writes a parameter's value with its secrets as references, and lists
// their names.
func (s secretNames) value(p *topology.Parameter) (value, []string) {
	w := &secretWriter{taken: s, place: p.VirtualHost + "\x00" + p.Component + "\x00" + p.Name, base: p.Component + "_" + p.Name}
	return w.write(p.Value, "", false), w.names
}

type secretWriter struct {
	taken       secretNames
	place, base string
	names       []string
	count       int
}

func (w *secretWriter) write(v any, key string, secret bool) value {
	switch v := v.(type) {
	case string:
		return scalar(quote(w.text(v, key, secret)))
	case []any:
		list := make(sequence, len(v))
		for i, e := range v {
			list[i] = w.write(e, key, secret)
		}
		return list
	case map[string]any:
		var t table
		for _, k := range topology.Arguments(v).Keys() {
			t.add(name(k), w.write(v[k], k, secretKey.MatchString(k)))
		}
		return t
	}
	return raw(v)
}

// text replaces the secrets of one text and escapes the rest.
func (w *secretWriter) text(s, key string, secret bool) string {
	if secret && s != "" {
		return w.reference(key, "")
	}
	s = escape(s)
	s = replaceGroup(userinfo, s, func() string { return w.reference(key, "PASSWORD") }, "@")
	return replaceGroup(secretQuery, s, func() string { return w.reference(key, "SECRET") }, "")
}

func replaceGroup(r *regexp.Regexp, s string, reference func() string, tail string) string {
	return r.ReplaceAllStringFunc(s, func(m string) string { return r.FindStringSubmatch(m)[1] + reference() + tail })
}

// reference is ${env:NAME} with a name of its own: the same for the same place in
// every writing.
func (w *secretWriter) reference(key, suffix string) string {
	w.count++
	id := w.place + "\x00" + strconv.Itoa(w.count)
	base := strings.Trim(notName.ReplaceAllString(strings.ToUpper(w.base+"_"+key+"_"+suffix), "_"), "_")
	if base == "" || base[0] >= '0' && base[0] <= '9' {
		base = "SECRET_" + base
	}
	n := base
	for i := 2; w.taken[n] != "" && w.taken[n] != id; i++ {
		n = base + "_" + strconv.Itoa(i)
	}
	w.taken[n] = id
	w.names = append(w.names, n)
	return "${env:" + n + "}"
}

func secretComment(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "set " + strings.Join(names, ", ") + " in the environment of apply"
}
