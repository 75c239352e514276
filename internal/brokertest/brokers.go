// Package brokertest lets tests use real RabbitMQ brokers.
//
// The brokers are named by their management URLs in RABBITCTL_TEST_BROKERS; `make test` and `dev/broker run` start one of
// each supported release and set it. A test asks for all of them with [Each], which runs a subtest per broker:
//
//	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
//		vhost := b.VirtualHost(t)
//		b.DeclareQueue(t, vhost, "orders", amqp.Table{"x-queue-type": "quorum"})
//	})
//
// Brokers are shared by packages that are tested at the same time: a test keeps to virtual hosts and users that it made
// through [Broker.VirtualHost] and [Broker.User], and one that restarts or breaks a broker starts its own with [StartNode].
//
// Without brokers such tests are skipped, or fail where CI or RABBITCTL_REQUIRE_BROKERS is set.
package brokertest

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const howToGetBrokers = "run `make test`, or start some with `dev/broker run -- go test ./...`, or name your own in RABBITCTL_TEST_BROKERS"

// Each runs a subtest on every broker, the oldest release first, named after the broker's version.
func Each(t *testing.T, f func(t *testing.T, b *Broker)) {
	t.Helper()
	each(t, all(t), f)
}

// EachSince is [Each] for the brokers of this release and later.
func EachSince(t *testing.T, release string, f func(t *testing.T, b *Broker)) {
	t.Helper()
	some := slices.DeleteFunc(all(t), func(b *Broker) bool { return !b.AtLeast(release) })
	if len(some) == 0 {
		unavailable(t, "no broker of release "+release+" or later")
	}
	each(t, some, f)
}

// EachBefore is [Each] for the brokers of releases before this one.
func EachBefore(t *testing.T, release string, f func(t *testing.T, b *Broker)) {
	t.Helper()
	some := slices.DeleteFunc(all(t), func(b *Broker) bool { return b.AtLeast(release) })
	if len(some) == 0 {
		unavailable(t, "no broker of a release before "+release)
	}
	each(t, some, f)
}

// One returns the broker of the newest release.
func One(t *testing.T) *Broker {
	t.Helper()
	brokers := all(t)
	return brokers[len(brokers)-1]
}

// Long skips the test unless RABBITCTL_LONG is set: for work of minutes, which `make test-long` does and CI does not.
func Long(t *testing.T) {
	t.Helper()
	if os.Getenv("RABBITCTL_LONG") == "" {
		t.Skip("takes long: set RABBITCTL_LONG=1, or run `make test-long`")
	}
}

// Rounds is how many random cases a test tries: with RABBITCTL_LONG the second number.
func Rounds(usual, long int) int {
	if os.Getenv("RABBITCTL_LONG") == "" {
		return usual
	}
	return long
}

func each(t *testing.T, brokers []*Broker, f func(t *testing.T, b *Broker)) {
	t.Helper()
	for _, b := range brokers {
		t.Run(b.Version, func(t *testing.T) { f(t, b) })
	}
}

// unavailable is the one place that decides between skipping and failing.
func unavailable(t *testing.T, why string) {
	t.Helper()
	if required() {
		t.Fatalf("%s: %s", why, howToGetBrokers)
	}
	t.Skipf("%s: %s", why, howToGetBrokers)
}

func required() bool {
	return inCI() || os.Getenv("RABBITCTL_REQUIRE_BROKERS") != ""
}

func inCI() bool {
	ci := os.Getenv("CI")
	return ci != "" && ci != "false" && ci != "0"
}

// urls returns what RABBITCTL_TEST_BROKERS names, and ends the test when that is nothing.
func urls(t *testing.T) []string {
	t.Helper()
	if testing.Short() && !inCI() {
		unavailable(t, "tests on brokers are left out of -short")
	}
	list := strings.FieldsFunc(os.Getenv("RABBITCTL_TEST_BROKERS"), func(r rune) bool { return r == ' ' || r == ',' || r == '\n' || r == '\t' })
	if len(list) == 0 {
		unavailable(t, "RABBITCTL_TEST_BROKERS is empty")
	}
	return list
}

// A broker is asked once per test binary what it is.
var (
	knownMutex sync.Mutex
	known      = map[string]*Broker{}
)

func all(t *testing.T) []*Broker {
	t.Helper()
	var brokers []*Broker
	for _, u := range urls(t) {
		knownMutex.Lock()
		b := known[u]
		if b == nil {
			var err error
			if b, err = open(u, 30*time.Second); err != nil {
				knownMutex.Unlock()
				t.Fatalf("broker in RABBITCTL_TEST_BROKERS: %v", err)
			}
			known[u] = b
		}
		knownMutex.Unlock()
		brokers = append(brokers, b)
	}
	slices.SortStableFunc(brokers, func(a, b *Broker) int { return compareVersions(a.Version, b.Version) })
	return brokers
}

// compareVersions compares the leading numbers; what is left out counts as 0, suffixes such as "-rc.1" do not count.
func compareVersions(a, b string) int {
	x, y := numbers(a), numbers(b)
	for len(x) < len(y) {
		x = append(x, 0)
	}
	for len(y) < len(x) {
		y = append(y, 0)
	}
	return slices.CompareFunc(x, y, cmp.Compare[int])
}

func numbers(version string) []int {
	version, _, _ = strings.Cut(version, "-")
	version, _, _ = strings.Cut(version, "+")
	var list []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		list = append(list, n)
	}
	return list
}

// Eventually polls until f returns nil, and fails the test with its last error when that takes longer than the timeout.
func Eventually(t testing.TB, timeout time.Duration, f func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still after %v: %v", timeout, err)
		}
		time.Sleep(pause)
	}
}

// EventuallyTrue is [Eventually] for a condition; what names it in the failure.
func EventuallyTrue(t testing.TB, timeout time.Duration, what string, f func() bool) {
	t.Helper()
	Eventually(t, timeout, func() error {
		if f() {
			return nil
		}
		return fmt.Errorf("not so: %s", what)
	})
}
