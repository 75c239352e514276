package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// FormatVersion is the version of the JSON form of a plan. Within one major
// version fields are only added; docs/plan-json.md says what is promised.
const FormatVersion = "1.0"

// The JSON form has types of its own, so that it stays as it is when the package
// changes.
type jsonPlan struct {
	FormatVersion   string              `json:"format_version"`
	RabbitMQVersion string              `json:"rabbitmq_version,omitempty"`
	ClusterName     string              `json:"cluster_name,omitempty"`
	SpecDigest      string              `json:"spec_digest,omitempty"`
	Masked          bool                `json:"masked,omitempty"`
	Summary         jsonSummary         `json:"summary"`
	Changes         []jsonChange        `json:"changes"`
	Routes          map[string][]string `json:"routes"`
	Notes           []jsonNote          `json:"notes"`
	Unmanaged       []topology.Key      `json:"unmanaged"`
	LeftBehind      []topology.Key      `json:"left_behind,omitempty"`
	Adopt           []topology.Key      `json:"adopt,omitempty"`
	Stacks          map[string]string   `json:"stacks,omitempty"`
}

type jsonSummary struct {
	Create  int `json:"create"`
	Update  int `json:"update"`
	Replace int `json:"replace"`
	Delete  int `json:"delete"`
	Blocked int `json:"blocked"`
}

type jsonChange struct {
	ID          string       `json:"id"`
	Object      topology.Key `json:"object"`
	Actions     []Action     `json:"actions"`
	Before      *jsonObject  `json:"before"`
	After       *jsonObject  `json:"after"`
	Fields      []jsonField  `json:"fields"`
	Reasons     []jsonReason `json:"reasons"`
	Cost        jsonCost     `json:"cost"`
	Blocked     []jsonBlock  `json:"blocked"`
	Needs       []string     `json:"needs"`
	NeedsEmpty  []string     `json:"needs_empty,omitempty"`
	Fingerprint string       `json:"fingerprint"`
}

type jsonField struct {
	Name  string `json:"name"`
	Old   any    `json:"old"`
	New   any    `json:"new"`
	Fixed bool   `json:"fixed_at_declaration"`
}

type jsonReason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

type jsonCost struct {
	Messages         *int64  `json:"messages,omitempty"`
	Consumers        *int64  `json:"consumers,omitempty"`
	Bindings         int     `json:"bindings,omitempty"`
	SecondsEstimated float64 `json:"seconds_estimated,omitempty"`
}

type jsonBlock struct {
	Code   string `json:"code"`
	Text   string `json:"text"`
	Unlock string `json:"unlock"`
}

type jsonNote struct {
	Object topology.Key `json:"object"`
	Code   string       `json:"code"`
	Text   string       `json:"text"`
}

// Marshal writes a plan in the form that Unmarshal reads and apply takes. It
// refuses a plan whose parameters hold a secret as it is: secrets are saved as
// references only.
func Marshal(p *Plan) ([]byte, error) {
	if keys := p.RawSecrets(); len(keys) > 0 {
		return nil, fmt.Errorf("%s holds a secret, which is not saved: write it as a reference such as ${env:NAME} in the spec", keys[0])
	}
	return marshal(p)
}

// MarshalMasked writes a plan to be shown: secrets are replaced by ***. What had
// any cannot be applied.
func MarshalMasked(p *Plan) ([]byte, error) { return marshal(p) }

func marshal(p *Plan) ([]byte, error) {
	out := jsonPlan{
		FormatVersion: FormatVersion, ClusterName: p.Server.ClusterName, SpecDigest: p.SpecDigest(),
		Masked: len(p.RawSecrets()) > 0, Changes: []jsonChange{}, Routes: map[string][]string{}, Notes: []jsonNote{},
		Unmanaged: list(p.Unmanaged), LeftBehind: p.LeftBehind, Adopt: p.Adopt, Stacks: p.Stacks,
	}
	if !p.Server.Version.IsZero() {
		out.RabbitMQVersion = p.Server.Version.String()
	}
	for _, c := range p.Changes {
		out.Summary.count(c)
		out.Changes = append(out.Changes, encodeChange(p, c))
	}
	for id, members := range p.Routes {
		out.Routes[id] = list(members)
	}
	for _, n := range p.Notes {
		out.Notes = append(out.Notes, jsonNote{n.Key, n.Code, n.Text})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("write the plan as JSON: %w", err)
	}
	return escapeUnsafe(b.Bytes()), nil
}

// list makes an empty list of none: [] and not null.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

func (s *jsonSummary) count(c *Change) {
	switch c.Action {
	case Create:
		s.Create++
	case Update:
		s.Update++
	case Replace:
		s.Replace++
	case Delete:
		s.Delete++
	}
	if len(c.Blocked) > 0 {
		s.Blocked++
	}
}

func encodeChange(p *Plan, c *Change) jsonChange {
	out := jsonChange{
		ID: c.ID, Object: c.Key, Actions: []Action{c.Action}, Before: encodeObject(c.Before), After: encodeObject(c.After),
		Fields: []jsonField{}, Reasons: []jsonReason{}, Blocked: []jsonBlock{}, Needs: list(c.Needs), NeedsEmpty: c.NeedsEmpty, Fingerprint: p.Fingerprints[c.ID],
		Cost: jsonCost{c.Cost.Messages, c.Cost.Consumers, c.Cost.Bindings, c.Cost.SecondsEstimated},
	}
	if c.Action == Replace { // whoever looks for a delete must not miss it
		out.Actions = []Action{Delete, Create}
	}
	for _, f := range maskFields(slices.Clone(c.Fields)) {
		out.Fields = append(out.Fields, jsonField{f.Name, encodeValue(f.Old), encodeValue(f.New), f.Fixed})
	}
	for _, r := range c.Reasons {
		out.Reasons = append(out.Reasons, jsonReason(r))
	}
	for _, b := range c.Blocked {
		out.Blocked = append(out.Blocked, jsonBlock(b))
	}
	return out
}

// escapeUnsafe writes characters that a terminal could act on as \u escapes. JSON
// has them in strings only.
func escapeUnsafe(data []byte) []byte {
	unsafe := func(r rune) bool {
		return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
	}
	if bytes.IndexFunc(data, unsafe) < 0 {
		return data
	}
	var b bytes.Buffer
	for _, r := range string(data) {
		switch {
		case !unsafe(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// IsPlanFile reports whether the text is a plan that Marshal wrote, going by its
// top-level keys and never by a file's name.
func IsPlanFile(data []byte) bool {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return false
	}
	var top struct {
		FormatVersion *json.RawMessage `json:"format_version"`
		Changes       *json.RawMessage `json:"changes"`
		Routes        *json.RawMessage `json:"routes"`
	}
	return json.Unmarshal(data, &top) == nil && top.FormatVersion != nil && top.Changes != nil && top.Routes != nil
}

// Unmarshal reads what Marshal wrote. What only a spec says of an object (its
// intent, its place) is not part of it.
func Unmarshal(data []byte) (*Plan, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var in jsonPlan
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("not a plan: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not a plan: something follows its end")
	}
	if major, _, _ := strings.Cut(in.FormatVersion, "."); major != "1" {
		return nil, fmt.Errorf("the plan has format version %q, this program reads 1.x", in.FormatVersion)
	}
	if in.Masked {
		return nil, errors.New("the plan was written to be shown, its secrets are masked; save one with --out")
	}
	p := &Plan{
		Server: Server{ClusterName: in.ClusterName}, Digest: func() string { return in.SpecDigest }, Routes: in.Routes, Unmanaged: in.Unmanaged,
		Fingerprints: map[string]string{}, LeftBehind: in.LeftBehind, Adopt: in.Adopt, Stacks: in.Stacks,
	}
	if in.RabbitMQVersion != "" {
		v, err := catalog.ParseVersion(in.RabbitMQVersion)
		if err != nil {
			return nil, fmt.Errorf("rabbitmq_version: %w", err)
		}
		p.Server.Version = v
	}
	for vhost, stack := range in.Stacks {
		if !ownership.StackName.MatchString(stack) {
			return nil, fmt.Errorf("stacks: %q of virtual host %q is not the name of a stack", stack, vhost)
		}
	}
	for i, c := range in.Changes {
		change, err := decodeChange(c)
		if err != nil {
			return nil, fmt.Errorf("change %d (%q): %w", i+1, c.ID, err)
		}
		if _, twice := p.Fingerprints[change.ID]; twice {
			return nil, fmt.Errorf("change %d (%q) is there twice", i+1, c.ID)
		}
		p.Changes = append(p.Changes, change)
		p.Fingerprints[change.ID] = c.Fingerprint
	}
	for _, n := range in.Notes {
		p.Notes = append(p.Notes, Note{n.Object, n.Code, n.Text})
	}
	return p, nil
}

func decodeChange(in jsonChange) (*Change, error) {
	c := &Change{ID: in.ID, Key: in.Object, Needs: in.Needs, NeedsEmpty: in.NeedsEmpty}
	switch {
	case slices.Equal(in.Actions, []Action{Delete, Create}):
		c.Action = Replace
	case len(in.Actions) == 1 && slices.Contains([]Action{Create, Update, Delete}, in.Actions[0]):
		c.Action = in.Actions[0]
	default:
		return nil, fmt.Errorf("unknown actions %q", in.Actions)
	}
	var err error
	if c.Before, err = decodeObject(in.Before); err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	if c.After, err = decodeObject(in.After); err != nil {
		return nil, fmt.Errorf("after: %w", err)
	}
	if c.Action != Create && c.Before == nil || c.Action != Delete && c.After == nil {
		return nil, fmt.Errorf("%s without an object", c.Action)
	}
	for _, o := range []topology.Object{c.Before, c.After} {
		if o != nil && o.Key() != c.Key {
			return nil, fmt.Errorf("holds %s in place of %s", o.Key(), c.Key)
		}
	}
	if c.ID != id(c.Key) {
		return nil, fmt.Errorf("is not the ID of %s", c.Key)
	}
	for _, f := range in.Fields {
		oldValue, errOld := decodeValue(f.Old)
		newValue, errNew := decodeValue(f.New)
		if err := cmp.Or(errOld, errNew); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		c.Fields = append(c.Fields, Field{f.Name, oldValue, newValue, f.Fixed})
	}
	for _, r := range in.Reasons {
		c.Reasons = append(c.Reasons, Reason(r))
	}
	for _, b := range in.Blocked {
		c.Blocked = append(c.Blocked, Block(b))
	}
	c.Cost = Cost{Counts{in.Cost.Messages, in.Cost.Consumers}, in.Cost.Bindings, in.Cost.SecondsEstimated}
	return c, nil
}
