package background

import (
	"errors"
	"testing"
)

func TestStart(t *testing.T) {
	begun, failed := make(chan bool), errors.New("failed")
	wait := Start(func() (int, error) { close(begun); return 1, failed })
	<-begun // without anybody waiting
	for range 2 {
		if n, err := wait(); n != 1 || !errors.Is(err, failed) {
			t.Errorf("%d, %v", n, err)
		}
	}
}

func TestPanicIsTheWaiters(t *testing.T) {
	wait := Start(func() (int, error) { panic("mistake") })
	defer func() {
		if p := recover(); p != "mistake" {
			t.Errorf("recovered %v", p)
		}
	}()
	_, _ = wait()
	t.Error("no panic")
}
