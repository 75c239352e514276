// Package ownership keeps the record of what a stack has made on a broker: one
// global parameter for each virtual host and stack. Only what is recorded is ever
// deleted when it leaves the spec. The package is pure: internal/broker reads and
// writes the parameters.
package ownership

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Prefix begins the names of the global parameters that are records.
const Prefix = "rabbitctl:"

// format is the version of a record's form. A record of another one is not
// touched.
const format = 1

// StackName is what a stack may be called.
var StackName = regexp.MustCompile(`^[a-z0-9._-]{1,60}$`)

// State says how sure a record is of an object.
type State string

// The states. An object is pending before it is created, and only after it was
// seen under the lock that there is none: found existing later, it is ours.
const (
	Pending State = "pending"
	Owned   State = "owned"
)

// Record is what one stack owns in one virtual host.
type Record struct {
	Stack, VirtualHost string
	// Digest is of the spec that was applied last, Time when.
	Digest  string
	Time    time.Time
	Objects map[topology.Key]State
}

// Name is the name of the global parameter of a record. Any virtual host's name
// fits, since a hash stands for it.
func Name(stack, vhost string) string {
	sum := sha256.Sum256([]byte(vhost))
	return Prefix + stack + ":" + hex.EncodeToString(sum[:])[:12]
}

// Name is the name of the record's global parameter.
func (r *Record) Name() string { return Name(r.Stack, r.VirtualHost) }

// value is a record as it is stored: names by kind, since a record may hold twenty
// thousand objects and a request body has a limit.
type value struct {
	Format  int    `json:"format"`
	Stack   string `json:"stack"`
	VHost   string `json:"vhost"`
	Spec    string `json:"spec,omitempty"`
	Time    string `json:"time,omitempty"`
	Owned   byKind `json:"owned,omitempty"`
	Pending byKind `json:"pending,omitempty"`
}

type byKind map[topology.Kind][]string

// UnmarshalJSON takes an empty list for an empty table, as which RabbitMQ gives
// one back.
func (b *byKind) UnmarshalJSON(data []byte) error {
	var none []any
	if json.Unmarshal(data, &none) == nil && len(none) == 0 {
		return nil
	}
	var table map[topology.Kind][]string
	if err := json.Unmarshal(data, &table); err != nil {
		return errors.New("owned and pending must be tables of lists of names")
	}
	*b = table
	return nil
}

// MarshalJSON writes the record as it is stored; equal records give equal text.
func (r *Record) MarshalJSON() ([]byte, error) {
	v := value{Format: format, Stack: r.Stack, VHost: r.VirtualHost, Spec: r.Digest, Owned: byKind{}, Pending: byKind{}}
	if !r.Time.IsZero() {
		v.Time = r.Time.UTC().Format(time.RFC3339)
	}
	for k, state := range r.Objects {
		into := v.Owned
		if state == Pending {
			into = v.Pending
		}
		into[k.Kind] = append(into[k.Kind], k.Name)
	}
	for _, table := range []byKind{v.Owned, v.Pending} {
		for _, names := range table {
			slices.Sort(names)
		}
	}
	return json.Marshal(v)
}

// Parse reads a record. It may have been edited by hand: whatever is not exactly
// what it should be is an error, and such a record is neither used nor written.
func Parse(name string, data []byte) (*Record, error) {
	var v value
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("it is no record: %w", err)
	}
	switch {
	case v.Format > format:
		return nil, fmt.Errorf("it has format %d, this program knows %d: a later rabbitctl wrote it", v.Format, format)
	case v.Format != format:
		return nil, fmt.Errorf("it has format %d, not %d", v.Format, format)
	case !StackName.MatchString(v.Stack):
		return nil, fmt.Errorf("%q is not the name of a stack", v.Stack)
	case Name(v.Stack, v.VHost) != name:
		return nil, fmt.Errorf("it says that it is of stack %q in virtual host %q, whose record has another name", v.Stack, v.VHost)
	}
	r := &Record{Stack: v.Stack, VirtualHost: v.VHost, Digest: v.Spec, Objects: map[topology.Key]State{}}
	if v.Time != "" {
		t, err := time.Parse(time.RFC3339, v.Time)
		if err != nil {
			return nil, fmt.Errorf("%q is not a time", v.Time)
		}
		r.Time = t
	}
	for _, table := range []struct {
		state State
		names byKind
	}{{Pending, v.Pending}, {Owned, v.Owned}} {
		for kind, names := range table.names {
			for _, n := range names {
				r.Objects[topology.Key{Kind: kind, VirtualHost: v.VHost, Name: n}] = table.state
			}
		}
	}
	return r, nil
}

// Changes are what a run does to a record.
type Changes struct {
	// Pending are about to be created, Owned were created or adopted, Gone are no
	// longer there or no longer ours.
	Pending, Owned, Gone []topology.Key
}

// With is the record after the changes. The original stays as it is.
func (r *Record) With(c Changes) *Record {
	n := *r
	n.Objects = make(map[topology.Key]State, len(r.Objects)+len(c.Pending)+len(c.Owned))
	for k, s := range r.Objects {
		n.Objects[k] = s
	}
	for _, k := range c.Pending {
		if n.Objects[k] != Owned {
			n.Objects[k] = Pending
		}
	}
	for _, k := range c.Owned {
		n.Objects[k] = Owned
	}
	for _, k := range c.Gone {
		delete(n.Objects, k)
	}
	return &n
}

// SameObjects reports whether two records hold the same; nil holds nothing.
func SameObjects(a, b *Record) bool {
	if a == nil || b == nil {
		return (a == nil || len(a.Objects) == 0) && (b == nil || len(b.Objects) == 0)
	}
	if len(a.Objects) != len(b.Objects) {
		return false
	}
	for k, s := range a.Objects {
		if b.Objects[k] != s {
			return false
		}
	}
	return true
}

// hashOf is the part of a record's name that stands for the virtual host; "" when
// the name has none.
func hashOf(name string) string {
	rest, ok := strings.CutPrefix(name, Prefix)
	if !ok {
		return ""
	}
	_, hash, ok := strings.Cut(rest, ":")
	if !ok {
		return ""
	}
	return hash
}
