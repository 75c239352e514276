package specs

import (
	"strings"
	"testing"
)

func TestGuessVirtualHosts(t *testing.T) {
	for text, want := range map[string]string{
		"version: 1\nqueues: {}\n":                          "/",
		"version: 1\nvhost: shop\nqueues:\n  vhost: {}\n":   "shop",
		"version: 1\nvhost: 'a b' # ours\n":                 "a b",
		"vhost: b\r\n---\nversion: 1\nvhost: \"a\"\r\n":     "a,b",
		"version: 1\nvhost: ${env}\n":                       "",
		`{"version": 1, "vhost": "shop"}`:                   "",
		"version: 1\n# vhost: x\nvhost: /\n---\nvhost: /\n": "/",
		"": "/",
	} {
		if got := strings.Join(GuessVirtualHosts([]File{{Name: "a", Data: []byte(text)}}), ","); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := GuessVirtualHosts(nil); got != nil {
		t.Errorf("no files: %q", got)
	}
}
