package command

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestInterrupt: a command that only computes is left behind, one that writes is
// waited for.
func TestInterrupt(t *testing.T) {
	for _, writes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var errs bytes.Buffer
			release := make(chan struct{})
			go func() {
				time.Sleep(time.Second)
				cancel()
				time.Sleep(time.Minute)
				close(release)
			}()
			start := time.Now()
			status := interruptible(ctx, Streams{Err: &errs}, func(ctx context.Context) Exit {
				if writes {
					beginWriting(ctx)
				}
				<-release // deaf to the context
				return ExitPartial
			})
			took := time.Since(start)
			if writes && (status != ExitPartial || took != time.Minute+time.Second) {
				t.Errorf("a writing command: status %d after %s", status, took)
			}
			if !writes && (status != ExitFailure || took != time.Second+interruptGrace || !strings.Contains(errs.String(), "nothing was changed")) {
				t.Errorf("a computing command: status %d after %s, %q", status, took, errs.String())
			}
			<-release
		})
	}
}
