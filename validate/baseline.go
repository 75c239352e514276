package validate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// BaselineVersion is the format version of baseline files.
const BaselineVersion = "1.0"

// codeBaselineEntryUnused is the code of entries that nothing is found for.
const codeBaselineEntryUnused = "baseline-entry-unused"

// Baseline lists findings that are accepted because they were there before, each
// by its code and its object: a finding stays accepted when lines move and when
// its words change. Structural findings and those on ignore comments are never
// accepted.
type Baseline struct {
	name    string
	entries []BaselineEntry
	lines   []int // of the entries in the file; nil when there is none
}

// BaselineEntry is one accepted finding.
type BaselineEntry struct {
	Code string `json:"code"`
	// Object is what the finding is about; nil: no single object, and File has the
	// name of the file.
	Object *topology.Key `json:"object,omitempty"`
	File   string        `json:"file,omitempty"`
}

// baselineKey is a BaselineEntry that can be compared.
type baselineKey struct {
	code   string
	object topology.Key
	file   string
}

func (e BaselineEntry) key() baselineKey {
	k := baselineKey{code: e.Code, file: e.File}
	if e.Object != nil {
		k.object = *e.Object
	}
	return k
}

// entry is what a finding is in a baseline.
func (f *finding) entry() BaselineEntry {
	if f.Object == (topology.Key{}) {
		return BaselineEntry{Code: f.Code, File: path.Clean(filepath.ToSlash(f.Position.File))}
	}
	return BaselineEntry{Code: f.Code, Object: &f.Object}
}

// NewBaseline is the baseline that accepts everything that Check finds in in now;
// a baseline that in has is left out of account.
func NewBaseline(in Input) *Baseline {
	found, _ := collect(in)
	b := &Baseline{}
	for _, f := range found {
		if !f.Structural {
			b.entries = append(b.entries, f.entry())
		}
	}
	slices.SortFunc(b.entries, func(x, y BaselineEntry) int {
		a, b := x.key(), y.key()
		return cmp.Or(
			strings.Compare(a.object.VirtualHost, b.object.VirtualHost),
			cmp.Compare(a.object.Kind, b.object.Kind),
			strings.Compare(a.object.Name, b.object.Name),
			strings.Compare(a.file, b.file),
			strings.Compare(a.code, b.code),
		)
	})
	b.entries = slices.CompactFunc(b.entries, func(x, y BaselineEntry) bool { return x.key() == y.key() })
	return b
}

// Len counts the entries.
func (b *Baseline) Len() int { return len(b.entries) }

// Marshal writes the baseline as JSON, one entry on a line so that a version
// control system shows what changed.
func (b *Baseline) Marshal() ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n  \"format_version\": %q,\n  \"findings\": [", BaselineVersion)
	for i, e := range b.entries {
		var line bytes.Buffer
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(e); err != nil {
			return nil, fmt.Errorf("write the baseline: %w", err)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n    ")
		out.Write(bytes.TrimSuffix(line.Bytes(), []byte("\n")))
	}
	if len(b.entries) > 0 {
		out.WriteString("\n  ")
	}
	out.WriteString("]\n}\n")
	return out.Bytes(), nil
}

// ReadBaseline reads what Marshal has written; name is that of the file.
func ReadBaseline(name string, data []byte) (*Baseline, error) {
	b := &Baseline{name: name}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	fail := func(err error) error {
		line := 1 + bytes.Count(data[:dec.InputOffset()], []byte("\n"))
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file ends too early")
		}
		return fmt.Errorf("read the baseline %q: line %d: %w", name, line, err)
	}
	if err := expect(dec, json.Delim('{')); err != nil {
		return nil, fail(err)
	}
	version := ""
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fail(err)
		}
		switch key {
		case "format_version":
			if err := dec.Decode(&version); err != nil {
				return nil, fail(err)
			}
			if !strings.HasPrefix(version, "1.") {
				return nil, fail(fmt.Errorf("format version %q is none that this release reads (%s)", version, BaselineVersion))
			}
		case "findings":
			if err := b.readEntries(dec, data); err != nil {
				return nil, fail(err)
			}
		default:
			return nil, fail(fmt.Errorf("unknown key %q", key))
		}
	}
	if err := expect(dec, json.Delim('}')); err != nil {
		return nil, fail(err)
	}
	if version == "" {
		return nil, fail(errors.New("format_version is missing: is this a baseline?"))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fail(errors.New("there is more after the end of the baseline"))
	}
	return b, nil
}

func expect(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if err == nil && got != want {
		err = fmt.Errorf("expected %s, not %v", want, got)
	}
	return err
}

func (b *Baseline) readEntries(dec *json.Decoder, data []byte) error {
	if err := expect(dec, json.Delim('[')); err != nil {
		return err
	}
	for dec.More() {
		var e BaselineEntry
		if err := dec.Decode(&e); err != nil {
			return err
		}
		if e.Code == "" {
			return errors.New("an entry has no code")
		}
		b.entries = append(b.entries, e)
		b.lines = append(b.lines, 1+bytes.Count(data[:dec.InputOffset()], []byte("\n")))
	}
	return expect(dec, json.Delim(']'))
}

// apply takes out the findings that the baseline accepts, and notes the entries
// that nothing is found for any more.
func (b *Baseline) apply(found []*finding, strict bool) ([]*finding, diag.List) {
	used := make(map[baselineKey]bool, len(b.entries))
	for _, e := range b.entries {
		used[e.key()] = false
	}
	kept := found[:0:0]
	for _, f := range found {
		key := f.entry().key()
		if _, accepted := used[key]; accepted && !f.Structural {
			used[key] = true
			continue
		}
		kept = append(kept, f)
	}
	var gone diag.List
	for i, e := range b.entries {
		if used[e.key()] || !strict && onlyStrict(e.Code) {
			continue
		}
		gone.Add(b.unused(i))
	}
	return kept, gone
}

// onlyStrict reports whether a code can be found with --strict only, so that its
// absence says nothing without.
func onlyStrict(code string) bool {
	return slices.ContainsFunc(Rules, func(r Rule) bool { return r.Code == code && r.OnlyStrict })
}

func (b *Baseline) unused(i int) diag.Diagnostic {
	e := b.entries[i]
	d := diag.Diagnostic{
		Severity: diag.Info, Code: codeBaselineEntryUnused,
		Summary: fmt.Sprintf("the baseline accepts %q, which is not found any more", e.Code),
		Detail:  "Remove the entry from the baseline, or write the file anew with --write-baseline.",
	}
	switch {
	case e.Object != nil:
		d.Object = *e.Object
		d.Summary = fmt.Sprintf("the baseline accepts %q on %s, which is not found any more", e.Code, e.Object)
	case e.File != "":
		d.Summary = fmt.Sprintf("the baseline accepts %q in %q, which is not found any more", e.Code, e.File)
	}
	if b.lines != nil {
		d.Position = topology.Position{File: b.name, Line: b.lines[i], Column: 1}
	}
	return d
}
