package spectest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/command"
	"github.com/rabbitctl/rabbitctl/internal/spectest"
)

// TestRandomSpecs: whatever a spec says, the plan after apply is empty; so are
// those of its export, and of the spec after its definitions were imported. It
// tries 200 specs on each version, 2000 with RABBITCTL_LONG, or as many as
// -rapid.checks says.
func TestRandomSpecs(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f == checks })
	if before := checks.Value.String(); !asked {
		checks.Value.Set(strconv.Itoa(brokertest.Rounds(200, 2000)))
		t.Cleanup(func() { checks.Value.Set(before) })
	}
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		base := b.VirtualHost(t)
		t.Parallel() // each version has a broker of its own
		v, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		r := &randomRun{b: b, outer: t, folder: t.TempDir(), version: v, base: base}
		rapid.Check(t, func(t *rapid.T) { r.check(t) })
	})
}

type randomRun struct {
	b       *brokertest.Broker
	outer   *testing.T
	folder  string
	version catalog.Version
	base    string // what names of virtual hosts begin with
	count   int
}

// run carries out a command line, which has to succeed, and returns what it prints.
func (r *randomRun) run(t *rapid.T, args ...string) string {
	t.Logf("rabbitctl %q", args)
	var out, errs bytes.Buffer
	exit := command.Run(r.outer.Context(), args, command.Streams{
		In: strings.NewReader(""), Out: &out, Err: &errs,
		Environ: []string{"HOME=/nonexistent", "RABBITCTL_URL=" + r.b.URL, "RABBITCTL_USERNAME=" + r.b.Username, "RABBITCTL_PASSWORD=" + r.b.Password},
	})
	if exit != 0 {
		t.Fatalf("exit %d\n%s%s", exit, &out, &errs)
	}
	return out.String()
}

func (r *randomRun) file(t *rapid.T, name, text string) string {
	t.Logf("%s:\n%s", name, text)
	name = filepath.Join(r.folder, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// nothing holds the plan of a spec to be empty.
func (r *randomRun) nothing(t *rapid.T, what string, args ...string) string {
	p := r.run(t, append([]string{"plan", "--detailed-exitcode"}, args...)...)
	if !strings.HasPrefix(p, "Nothing to do") {
		t.Fatalf("the plan %s is not empty:\n%s", what, p)
	}
	return p
}

// everything holds it to know all that is there, too.
func (r *randomRun) everything(t *rapid.T, what string, args ...string) {
	if out := r.nothing(t, what, args...); strings.Contains(out, "not in the spec") {
		t.Fatalf("the plan %s leaves something out:\n%s", what, out)
	}
}

func (r *randomRun) check(t *rapid.T) {
	var vhosts, flags []string
	for i := range rapid.IntRange(1, 2).Draw(t, "virtual hosts") {
		r.count++ // never one that was there before: it may still be going
		name := fmt.Sprintf("%s %d%s", r.base, r.count, []string{"", " ü/${x}"}[i])
		vhosts, flags = append(vhosts, name), append(flags, "--vhost", name)
		defer r.b.Do(r.outer, http.MethodDelete, brokertest.Path("vhosts", name), nil)
	}
	// The spec is drawn for names that stay the same, so that a failure is found
	// again.
	spec := spectest.Draw(t, r.version, []string{"first ${}", "second"}[:len(vhosts)]...)
	for i, drawn := range []string{"vhost: first $${}", "vhost: second"}[:len(vhosts)] {
		quoted, _ := json.Marshal(strings.ReplaceAll(vhosts[i], "${", "$${"))
		spec = strings.ReplaceAll(spec, drawn+"\n", "vhost: "+string(quoted)+"\n")
	}
	file := r.file(t, "spec.yaml", spec)
	r.run(t, "apply", "--yes", file)
	r.nothing(t, "after apply", file)

	exported := r.run(t, append([]string{"export"}, flags...)...)
	r.everything(t, "of the export", r.file(t, "export.yaml", exported))

	compiled := r.run(t, "compile", "--rabbitmq", r.b.Version, file)
	definitions := r.file(t, "definitions.json", compiled)
	r.everything(t, "against the definitions", "--against", definitions, file)
	again := r.run(t, "export", "--from", definitions)
	r.everything(t, "of the export of the definitions", "--against", definitions, r.file(t, "again.yaml", again))

	var body any
	if err := json.Unmarshal([]byte(compiled), &body); err != nil {
		t.Fatal(err)
	}
	for _, name := range vhosts {
		r.b.Do(r.outer, http.MethodDelete, brokertest.Path("vhosts", name), nil)
		r.b.Put(r.outer, brokertest.Path("vhosts", name), map[string]any{})
		r.b.Put(r.outer, brokertest.Path("permissions", name, r.b.Username), map[string]any{"configure": ".*", "write": ".*", "read": ".*"})
	}
	if status, answer := r.b.Do(r.outer, http.MethodPost, "/api/definitions", body); status/100 != 2 {
		t.Fatalf("import: %d %s", status, answer)
	}
	r.nothing(t, "after import", file)
}
