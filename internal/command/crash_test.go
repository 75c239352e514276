package command

import (
	"context"
	"strings"
	"testing"
)

// panics is a reader that breaks the program.
type panics struct{}

func (panics) Read([]byte) (int, error) { panic("out of \x1b[31morder") }

func TestCrashIsNoPlan(t *testing.T) {
	var out, errs strings.Builder
	s := Streams{In: panics{}, Out: &out, Err: &errs}
	if status := Run(context.Background(), []string{"validate", "-"}, s); status != int(ExitFailure) {
		t.Errorf("status is %d, want %d", status, ExitFailure)
	}
	if got := errs.String(); !strings.Contains(got, "internal error") || !strings.Contains(got, "please report") || strings.Contains(got, "\x1b") {
		t.Errorf("stderr is %q", got)
	}
}
