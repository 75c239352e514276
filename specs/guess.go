package specs

import (
	"bytes"
	"slices"
	"strings"
)

// GuessVirtualHosts names the virtual hosts that specs seem to be about, by a glance at
// their text: enough to begin to read a broker while the specs are parsed, and for
// nothing else. It may be wrong, and gives none where it cannot tell.
func GuessVirtualHosts(files []File) []string {
	var names []string
	for _, f := range files {
		if bytes.HasPrefix(bytes.TrimSpace(f.Data), []byte("{")) {
			return nil // one long line
		}
		found := false
		for line := range bytes.Lines(f.Data) {
			rest, ok := bytes.CutPrefix(line, []byte("vhost:"))
			if !ok {
				continue
			}
			name, _, _ := strings.Cut(string(rest), " #")
			name = strings.Trim(strings.TrimSpace(name), `"'`)
			if name == "" || strings.ContainsAny(name, "$\\&*!|>") {
				return nil
			}
			found = true
			names = append(names, name)
		}
		if !found {
			names = append(names, "/")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
