package command_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// TestNoCommandShowsSecrets: every command in every format, verbose, with a login that
// works, one that fails, an address that nothing answers at and a broker whose error
// repeats what it was sent. Neither the password of the login, from a URL, a flag or the
// environment, nor a secret of the spec is shown or saved.
func TestNoCommandShowsSecrets(t *testing.T) {
	t.Parallel() // it mostly waits
	b := brokertest.One(t)
	vhost := b.VirtualHost(t)
	user, password := b.User(t, vhost, "administrator", ".*", ".*", ".*")
	const secret, wrong = "hunter2-in-a-uri", "hunter2-of-a-login"
	spec := onVHost(t, vhost, `
stack: hygiene
queues: {jobs: {type: classic}}
parameters: {federation-upstream: {far: {uri: "amqp://app:${env:FARPW}@far"}}}
`)
	proxy := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/parameters/") {
			return 400, `{"error":"bad_request","reason":"not a URI: amqp://app:` + secret + `@far?password=` + secret + `"}`, true
		}
		return 0, "", false
	})
	host := strings.TrimPrefix(proxy.URL, "http://")
	saved := filepath.Join(t.TempDir(), "plan.json")
	logins := map[string][]string{
		"url":         {"--url", "http://" + user + ":" + password + "@" + host},
		"flags":       {"--url", proxy.URL, "--username", user, "--password", password},
		"refused":     {"--url", "http://" + user + ":" + wrong + "@" + host},
		"unreachable": {"--url", "http://" + user + ":" + wrong + "@127.0.0.1:1", "--timeout", "1s"},
		"no URL":      {"--url", user + ":" + wrong + "@" + host},
		"amqp":        {"--url", proxy.URL, "--username", user, "--password", password, "--amqp-url", "amqp://" + user + ":" + wrong + "@127.0.0.1:1/%2f"},
	}
	commands := [][]string{
		{"plan", "--out", saved},
		{"plan", "--format", "json"},
		{"plan", "--format", "markdown"},
		{"plan", "--format", "nonsense"},
		{"apply", "--yes"},
		{"apply", "--yes", "--format", "json"},
		{"apply", "--yes", "--format", "markdown"},
		{"check"},
		{"check", "--format", "json"},
		{"validate", "--broker"},
		{"validate", "--broker", "--format", "json"},
		{"explain", "--broker", "jobs"},
		{"graph"},
		{"replace", "--yes", "jobs"},
	}
	shown := 0
	try := func(name string, args ...string) {
		t.Helper()
		r := runCommand(t, []string{"FARPW=" + secret, "RABBITCTL_AMQP_URL=amqp://" + b.AMQPAddress()}, args...)
		shown += len(r.out) + len(r.err)
		for _, s := range []string{secret, wrong, password} {
			if strings.Contains(r.out+r.err, s) {
				t.Errorf("%s, %q shows %s:\n%s%s", name, args[:2], s, r.out, r.err)
			}
		}
	}
	for name, login := range logins {
		for _, c := range commands {
			args := append([]string{c[0], "--verbose"}, append(append([]string{}, login...), c[1:]...)...)
			try(name, append(args, spec)...)
		}
		try(name, append([]string{"export", "--verbose", "--vhost", vhost}, login...)...)
		try(name, append([]string{"destroy", "--verbose", "--yes", "hygiene"}, login...)...)
	}
	if shown == 0 {
		t.Error("nothing was shown at all")
	}
	if data, err := os.ReadFile(saved); err == nil && strings.Contains(string(data), password) {
		t.Errorf("the saved plan holds the password:\n%s", data)
	}
}
