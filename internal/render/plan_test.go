package render

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

var updateGolden = flag.Bool("update-render", false, "write testdata/render anew")

// hostileName is a name that a terminal, a Markdown table or HTML could act on.
const hostileName = "a|b`<script>\x1b[31m\u202e"

// samplePlan has every kind of change, block and note.
func samplePlan() *plan.Plan {
	one := int64(1)
	three := int64(3)
	queue := func(name string, args topology.Arguments) *topology.Queue {
		return &topology.Queue{VirtualHost: "shop", Name: name, Type: topology.Quorum, Durable: true, Arguments: args}
	}
	wait := queue("jobs.retry", topology.Arguments{"x-message-ttl": int64(30000)})
	wait.Intent = &topology.QueueIntent{Generated: `retry of queue "jobs"`}
	external := queue("partner", nil)
	policy := &topology.Policy{VirtualHost: "shop", Name: "cap", Pattern: "^jobs$", ApplyTo: "queues", Definition: topology.Arguments{"max-length": int64(5)}}
	return &plan.Plan{
		Server: plan.Server{Version: catalog.Version{Major: 4, Minor: 3, Patch: 6}},
		Changes: []*plan.Change{
			{Key: wait.Key(), Action: plan.Create, After: wait, Reasons: []plan.Reason{{Code: "missing", Text: "it does not exist"}}},
			{
				Key: policy.Key(), Action: plan.Update, Before: policy, After: policy,
				Fields:  []plan.Field{{Name: "max-length", Old: int64(10), New: int64(5)}, {Name: "overflow", Old: "drop-head"}},
				Reasons: []plan.Reason{{Code: "differs", Text: "differs in max-length"}},
				Cost:    plan.Cost{Counts: plan.Counts{Messages: &three, Consumers: &one}, SecondsEstimated: 12},
				Blocked: []plan.Block{{Code: "lossy", Text: "would lose messages", Unlock: "--allow lossy=policy/cap"}},
			},
			{
				Key: queue(hostileName, nil).Key(), Action: plan.Replace, Before: queue(hostileName, nil), After: queue(hostileName, nil),
				Fields:  []plan.Field{{Name: "x-message-ttl", Old: int64(1), New: hostileName, Fixed: true}},
				Cost:    plan.Cost{Bindings: 2},
				Blocked: []plan.Block{{Code: "replace", Text: "cannot be changed in place " + hostileName}},
			},
			{Key: external.Key(), Action: plan.Create, After: external, Blocked: []plan.Block{{Code: "external-missing", Text: "is external and does not exist", Unlock: "create it"}}},
		},
		Notes:     []plan.Note{{Key: external.Key(), Code: "note", Text: "a hint " + hostileName}},
		Unmanaged: []topology.Key{queue("legacy", nil).Key(), queue(hostileName, nil).Key()},
	}
}

func sampleResult(p *plan.Plan) *apply.Result {
	return &apply.Result{
		FirstWrite: true,
		Done:       []apply.Outcome{{Change: p.Changes[0]}},
		Failed:     []apply.Outcome{{Change: p.Changes[2], Err: errors.New("the broker said " + hostileName)}},
		NotTried:   []apply.Outcome{{Change: p.Changes[1], Because: "needs something that failed"}},
		Blocked:    []apply.Outcome{{Change: p.Changes[3], Because: "is external"}},
	}
}

// TestGolden holds what plan, apply and check show, in each format.
func TestGolden(t *testing.T) {
	p := samplePlan()
	findings := diag.List{{Severity: diag.Warning, Code: "some-rule", Summary: "a | finding " + hostileName, Detail: "do this", Object: p.Changes[0].Key}}
	view := PlanView{Plan: p, Findings: findings, Against: "http://localhost:15672", ShowUnmanaged: true}
	problems := []Problem{ProblemOf(p.Changes[0]), ProblemOf(p.Changes[2]), ProblemOf(p.Changes[3])}
	writers := map[string]func(*bytes.Buffer, Options) error{
		"plan":       func(b *bytes.Buffer, o Options) error { return Plan(b, view, o) },
		"plan-empty": func(b *bytes.Buffer, o Options) error { return Plan(b, PlanView{Plan: &plan.Plan{}}, o) },
		"result":     func(b *bytes.Buffer, o Options) error { return Result(b, sampleResult(p), p.Changes[1:2], o) },
		"blocked": func(b *bytes.Buffer, o Options) error {
			return Result(b, &apply.Result{Blocked: apply.BlockedOutcomes(p.BlockedChanges())}, nil, o)
		},
		"check": func(b *bytes.Buffer, o Options) error { return Check(b, CheckView{Checked: 7, Problems: problems}, o) },
	}
	for name, write := range writers {
		for _, f := range []Format{Text, Markdown, JSON} {
			if f == JSON && strings.HasPrefix(name, "plan") {
				continue // the plan's own form, see plan/
			}
			t.Run(name+"."+string(f), func(t *testing.T) {
				var b bytes.Buffer
				if err := write(&b, Options{Format: f}); err != nil {
					t.Fatal(err)
				}
				if strings.ContainsFunc(b.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x202e }) {
					t.Errorf("a control character came through: %q", b.String())
				}
				file := filepath.Join("..", "..", "testdata", "render", name+"."+string(f))
				if *updateGolden {
					if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if b.String() != string(want) {
					t.Errorf("got\n%s\nwant\n%s", b.String(), want)
				}
			})
		}
	}
}

// TestPlanJSON: the form on standard output is the saved one with findings
// beside it, and no secret in it.
func TestPlanJSON(t *testing.T) {
	p := samplePlan()
	secret := &topology.Parameter{VirtualHost: "shop", Component: "shovel", Name: "s", Value: map[string]any{"src-uri": "amqp://app:topsecret@host"}}
	p.Changes = append(p.Changes, &plan.Change{ID: "x", Key: secret.Key(), Action: plan.Create, After: secret})
	var b bytes.Buffer
	if err := PlanJSON(&b, PlanView{Plan: p, Against: "file.json"}); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for _, want := range []string{`"format_version": "1.0"`, `"findings": []`, `"against": "file.json"`, `"delete",`} {
		if !strings.Contains(out, want) {
			t.Errorf("the JSON lacks %s:\n%s", want, out)
		}
	}
	if strings.Contains(out, "topsecret") || strings.ContainsRune(out, 0x1b) || strings.ContainsRune(out, 0x202e) {
		t.Errorf("the JSON lets through what it must not:\n%s", out)
	}
}
