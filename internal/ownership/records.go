package ownership

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Records are all records of a broker.
type Records struct {
	byName map[string]*Record
	// broken are parameters with a record's name that cannot be read.
	broken map[string]error
}

// Read parses the global parameters that have a record's name.
func Read(parameters map[string]json.RawMessage) *Records {
	all := &Records{byName: map[string]*Record{}, broken: map[string]error{}}
	for name, data := range parameters {
		if !strings.HasPrefix(name, Prefix) {
			continue
		}
		if r, err := Parse(name, data); err != nil {
			all.broken[name] = err
		} else {
			all.byName[name] = r
		}
	}
	return all
}

// Of is the record of a stack in a virtual host; nil: there is none that can be
// read.
func (r *Records) Of(stack, vhost string) *Record { return r.byName[Name(stack, vhost)] }

// Broken says why the record of a stack in a virtual host cannot be read; nil: it
// can be, or there is none.
func (r *Records) Broken(stack, vhost string) error { return r.broken[Name(stack, vhost)] }

// Stack lists the records of a stack by the names of their virtual hosts, and the
// names of those that cannot be read.
func (r *Records) Stack(stack string) (list []*Record, broken []string) {
	for _, name := range slices.Sorted(maps.Keys(r.byName)) {
		if one := r.byName[name]; one.Stack == stack {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b *Record) int { return strings.Compare(a.VirtualHost, b.VirtualHost) })
	for name := range r.broken {
		if strings.HasPrefix(name, Prefix+stack+":") {
			broken = append(broken, name)
		}
	}
	slices.Sort(broken)
	return list, broken
}

// View is what the records say to one stack in one virtual host.
type View struct {
	Stack string // "": the spec has none
	// Ours are the objects recorded for the stack.
	Ours map[topology.Key]State
	// Others names the stack that has recorded an object. One that both have
	// recorded is here too: it is nobody's to delete until that is settled.
	Others map[topology.Key]string
	// Why says why nothing can be recorded or deleted; "": it can be.
	Why string
}

// Owns reports whether an object is the stack's alone.
func (v *View) Owns(k topology.Key) bool {
	if v == nil || v.Why != "" {
		return false
	}
	_, ours := v.Ours[k]
	return ours && v.Others[k] == ""
}

// Unavailable is a view where no record can be read or written.
func Unavailable(stack, why string) *View { return &View{Stack: stack, Why: why} }

// View is what a stack of that name has to know of a virtual host. The records of
// the stacks in taken count as its own: they are being taken over.
func (r *Records) View(stack, vhost string, taken []string) *View {
	v := &View{Stack: stack, Ours: map[topology.Key]State{}, Others: map[topology.Key]string{}}
	if stack == "" {
		v.Why = "the spec has no stack"
	} else if err := r.Broken(stack, vhost); err != nil {
		v.Why = "the record of what the stack owns, the global parameter " + Name(stack, vhost) + ", cannot be read: " + err.Error()
	}
	hash := hashOf(Name("x", vhost))
	for _, name := range slices.Sorted(maps.Keys(r.byName)) {
		one := r.byName[name]
		if hashOf(name) != hash || one.VirtualHost != vhost {
			continue
		}
		ours := one.Stack == stack || slices.Contains(taken, one.Stack)
		for k, s := range one.Objects {
			switch {
			case !ours && v.Others[k] == "":
				v.Others[k] = one.Stack
			case ours && v.Ours[k] != Owned:
				v.Ours[k] = s
			}
		}
	}
	return v
}

// BrokenHere says by name which records about a virtual host cannot be read.
func (r *Records) BrokenHere(vhost string) map[string]error {
	found := map[string]error{}
	for name, err := range r.broken {
		if hashOf(name) == hashOf(Name("x", vhost)) {
			found[name] = err
		}
	}
	return found
}
