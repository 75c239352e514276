package brokertest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestAtLeast(t *testing.T) {
	for _, test := range []struct {
		version, release string
		want             bool
	}{
		{"3.10.8", "3.10", true},
		{"3.10.8", "3.9", true},
		{"3.10.8", "3.11", false},
		{"3.10.8", "4.0", false},
		{"4.0.5", "4", true},
		{"4.3.6", "4.3.6", true},
		{"4.3.6", "4.3.7", false},
		{"4.3.0-rc.1", "4.3", true},
		{"4.10.0+5.gabc", "4.9", true},
	} {
		if got := (&Broker{Version: test.version}).AtLeast(test.release); got != test.want {
			t.Errorf("%s at least %s: %v, want %v", test.version, test.release, got, test.want)
		}
	}
}

func TestURLOfVirtualHost(t *testing.T) {
	b := &Broker{Username: "a:b", Password: "p@ss/w", amqpAddress: "127.0.0.1:5672"}
	const want = "amqp://a%3Ab:p%40ss%2Fw@127.0.0.1:5672/%2F"
	if got := b.AMQPURL("/"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := amqp.ParseURI(want); err != nil {
		t.Error(err)
	}
}

// TestWithoutBrokers runs the test below in a process of its own, where it has no broker.
func TestWithoutBrokers(t *testing.T) {
	for _, test := range []struct {
		name, environment string
		arguments         []string
		fails             bool
	}{
		{name: "by hand", environment: "X=1"},
		{name: "CI is false", environment: "CI=false"},
		{name: "short", environment: "RABBITCTL_TEST_BROKERS=http://127.0.0.1:1", arguments: []string{"-test.short"}},
		{name: "in CI", environment: "CI=true", fails: true},
		{name: "short in CI", environment: "CI=true", arguments: []string{"-test.short"}, fails: true},
		{name: "required", environment: "RABBITCTL_REQUIRE_BROKERS=1", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			command := exec.Command(os.Args[0], append(test.arguments, "-test.v", "-test.run=^TestNeedsBroker$")...)
			for _, variable := range os.Environ() {
				if name, _, _ := strings.Cut(variable, "="); name != "CI" && name != "RABBITCTL_REQUIRE_BROKERS" && name != "RABBITCTL_TEST_BROKERS" {
					command.Env = append(command.Env, variable)
				}
			}
			command.Env = append(command.Env, "RABBITCTL_TEST_NEEDS_BROKER=1", test.environment)
			output, err := command.CombinedOutput()
			if failed := err != nil; failed != test.fails {
				t.Errorf("failed: %v, want %v", failed, test.fails)
			}
			want := "--- SKIP: TestNeedsBroker"
			if test.fails {
				want = "--- FAIL: TestNeedsBroker"
			}
			if !strings.Contains(string(output), want) || !strings.Contains(string(output), "make test") {
				t.Errorf("want %q and how to get brokers in:\n%s", want, output)
			}
		})
	}
}

func TestNeedsBroker(t *testing.T) {
	if os.Getenv("RABBITCTL_TEST_NEEDS_BROKER") == "" {
		return // it is for TestWithoutBrokers
	}
	Each(t, func(t *testing.T, b *Broker) {})
}

func TestEachRunsOldestFirst(t *testing.T) {
	var versions []string
	Each(t, func(t *testing.T, b *Broker) {
		if !strings.HasSuffix(t.Name(), "/"+b.Version) {
			t.Errorf("subtest %s on %s", t.Name(), b.Version)
		}
		versions = append(versions, b.Version)
	})
	for i := range versions[1:] {
		if compareVersions(versions[i], versions[i+1]) > 0 {
			t.Errorf("order: %v", versions)
		}
	}
	if newest := One(t).Version; newest != versions[len(versions)-1] {
		t.Errorf("One is %s of %v", newest, versions)
	}
	EachSince(t, "4.0", func(t *testing.T, b *Broker) {
		if !b.AtLeast("4.0") {
			t.Errorf("EachSince 4.0 on %s", b.Version)
		}
	})
	EachBefore(t, "4.0", func(t *testing.T, b *Broker) {
		if b.AtLeast("4.0") {
			t.Errorf("EachBefore 4.0 on %s", b.Version)
		}
	})
}

func TestEventually(t *testing.T) {
	calls := 0
	Eventually(t, time.Second, func() error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
	EventuallyTrue(t, 0, "true", func() bool { return true })
}
