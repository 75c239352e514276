package command_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/command"
)

// result is what one command line did.
type result struct {
	exit     int
	out, err string
}

func (r result) want(t *testing.T, exit int) {
	t.Helper()
	if r.exit != exit {
		t.Fatalf("exit status %d, want %d\n--- stdout\n%s--- stderr\n%s", r.exit, exit, r.out, r.err)
	}
	for _, s := range []string{r.out, r.err} {
		if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' }) {
			t.Errorf("control characters reached the output: %q", s)
		}
	}
}

// runCommand carries out one command line in this process, without terminals.
func runCommand(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	s := command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Environ: append([]string{"HOME=/nonexistent"}, environ...)}
	exit := command.Run(t.Context(), args, s)
	return result{exit, out.String(), errs.String()}
}

// runWith carries out a command line against a broker.
func runWith(t *testing.T, b *brokertest.Broker, args ...string) result {
	t.Helper()
	return runCommand(t, environment(b, b.Username, b.Password), args...)
}

func environment(b *brokertest.Broker, user, password string) []string {
	return []string{"RABBITCTL_URL=" + b.URL, "RABBITCTL_USERNAME=" + user, "RABBITCTL_PASSWORD=" + password}
}

// writeSpec writes a spec into a folder of its own.
func writeSpec(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestCommandLinesAtOnce: several command lines in one process share nothing; the
// race detector looks on.
func TestCommandLinesAtOnce(t *testing.T) {
	spec := writeSpec(t, "version: 1\nqueues: {q: {type: classic, loses: {rejected: test}}}\n")
	for range 4 {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			runCommand(t, nil, "validate", spec).want(t, 0)
			if r := runCommand(t, nil, "validate", "--help"); r.exit != 0 || !strings.Contains(r.out, "find mistakes in specs") {
				t.Errorf("exit status %d\n%s", r.exit, r.out)
			}
		})
	}
}
