package render

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Where people find what SARIF names.
const (
	projectURL  = "https://github.com/rabbitctl/rabbitctl"
	rulesURL    = projectURL + "/blob/main/docs/rules.md"
	sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

// The parts of SARIF 2.1.0 that are written.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string              `json:"id"`
		ShortDescription *sarifText          `json:"shortDescription,omitempty"`
		FullDescription  *sarifText          `json:"fullDescription,omitempty"`
		Help             *sarifText          `json:"help,omitempty"`
		HelpURI          string              `json:"helpUri,omitempty"`
		Default          *sarifConfiguration `json:"defaultConfiguration,omitempty"`
	}
	sarifText struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown,omitempty"`
	}
	sarifConfiguration struct {
		Level string `json:"level"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations,omitempty"`
		Related      []sarifLocation   `json:"relatedLocations,omitempty"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		ID       *int           `json:"id,omitempty"`
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
		Message  *sarifText     `json:"message,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
		EndColumn   int `json:"endColumn,omitempty"`
	}
	sarifLogical struct {
		Name               string `json:"name"`
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
)

var sarifLevels = map[diag.Severity]string{diag.Error: "error", diag.Warning: "warning", diag.Info: "note"}

// findingsSARIF writes SARIF 2.1.0. Columns count Unicode code points, as they do
// in every position.
func (p *printer) findingsSARIF(list diag.List, o Options) {
	rules, index := sarifRules(list, o.Rules)
	results := make([]sarifResult, 0, len(list))
	seen := map[string]int{}
	lines := newSourceLines(o.Sources)
	for _, d := range list {
		r := sarifResult{
			RuleID: text.Line(d.Code), RuleIndex: index[d.Code], Level: sarifLevels[d.Severity],
			Message:   sarifText{Text: text.Safe(withoutPlaces(d))},
			Locations: sarifLocations(d, lines),
		}
		for i, place := range d.Related {
			if place.Position.File == "" {
				continue
			}
			r.Related = append(r.Related, sarifLocation{
				ID: &i, Physical: sarifPlace(place.Position, lines), Message: &sarifText{Text: text.Line(place.Text)},
			})
		}
		// What stays the same when lines move: the code, the object, and which of
		// its findings with this code it is.
		name := strings.Join([]string{d.Code, string(d.Object.Kind), d.Object.VirtualHost, d.Object.Name}, "\x00")
		seen[name]++
		sum := sha256.Sum256([]byte(name + "\x00" + strconv.Itoa(seen[name])))
		r.Fingerprints = map[string]string{"rabbitctlFinding/v1": hex.EncodeToString(sum[:16])}
		results = append(results, r)
	}
	p.json(sarifLog{
		Schema: sarifSchema, Version: "2.1.0",
		Runs: []sarifRun{{
			Tool:       sarifTool{sarifDriver{Name: "rabbitctl", Version: o.Version, InformationURI: projectURL, Rules: rules}},
			ColumnKind: "unicodeCodePoints", Results: results,
		}},
	})
}

// withoutPlaces is message without the further places, which SARIF has apart.
func withoutPlaces(d diag.Diagnostic) string {
	d.Related = nil
	return message(d)
}

// sarifRules describes every known rule, and names the other codes of the list.
func sarifRules(list diag.List, known []Rule) (rules []sarifRule, index map[string]int) {
	rules, index = []sarifRule{}, map[string]int{}
	for _, r := range known {
		index[r.Code] = len(rules)
		rules = append(rules, sarifRule{
			ID: r.Code, ShortDescription: &sarifText{Text: r.Summary}, FullDescription: &sarifText{Text: r.Doc},
			Help:    &sarifText{Text: r.Help, Markdown: r.Doc + "\n\n**What to do:** " + r.Help},
			HelpURI: rulesURL + "#" + r.Code, Default: &sarifConfiguration{sarifLevels[r.Severity]},
		})
	}
	for _, d := range list {
		if _, ok := index[d.Code]; !ok {
			index[d.Code] = len(rules)
			rules = append(rules, sarifRule{ID: text.Line(d.Code)})
		}
	}
	return rules, index
}

func sarifLocations(d diag.Diagnostic, lines sourceLines) []sarifLocation {
	l := sarifLocation{Physical: sarifPlace(d.Position, lines)}
	if d.Object != (topology.Key{}) {
		l.Logical = []sarifLogical{{
			Name: text.Line(d.Object.Name), FullyQualifiedName: text.Line(d.Object.String()), Kind: string(d.Object.Kind),
		}}
	}
	if l.Physical == nil && l.Logical == nil {
		return nil
	}
	return []sarifLocation{l}
}

func sarifPlace(at topology.Position, lines sourceLines) *sarifPhysical {
	if at.File == "" {
		return nil
	}
	place := &sarifPhysical{Artifact: sarifArtifact{fileURI(at.File)}}
	if at.Line <= 0 {
		return place
	}
	place.Region = &sarifRegion{StartLine: at.Line}
	if at.Column <= 0 {
		return place
	}
	place.Region.StartColumn = at.Column
	if line, ok := lines.at(at); ok {
		if runes := []rune(line); at.Column <= len(runes) {
			place.Region.EndColumn = at.Column + wordLength(runes[at.Column-1:]) // the column after the last
		}
	}
	return place
}

// fileURI is a relative reference, or a file: URI for an absolute path.
func fileURI(file string) string {
	u := url.URL{Path: slashed(file)}
	if strings.HasPrefix(u.Path, "/") {
		u.Scheme = "file"
	}
	return u.String()
}
