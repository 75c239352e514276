package text

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	names := []string{"apply", "check", "completion", "init", "plan", "message_ttl"}
	for wrong, want := range map[string]string{
		"plna": "plan", "aply": "apply", "chekc": "check", "message-tll": "message_ttl", "Plan": "plan",
		"foo": "", "": "", "destroy": "",
	} {
		if got := Nearest(wrong, names); got != want {
			t.Errorf("%q: %q, want %q", wrong, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != slices.Equal([]rune(a), []rune(b)) || d > max(len([]rune(a)), len([]rune(b))) {
			t.Fatalf("distance %d between %q and %q", d, a, b)
		}
	})
}
