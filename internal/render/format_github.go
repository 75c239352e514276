package render

import (
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Workflow commands of GitHub Actions end at a line break, their properties also
// at a colon or a comma.
var (
	githubData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

var githubCommands = map[diag.Severity]string{diag.Error: "error", diag.Warning: "warning", diag.Info: "notice"}

// findingsGitHub writes one workflow command for each finding, which GitHub shows
// beside the line.
func (p *printer) findingsGitHub(list diag.List, _ Options) {
	for _, d := range list {
		properties := ""
		if d.Position.File != "" {
			properties = "file=" + githubProperty.Replace(text.Line(slashed(d.Position.File))) + ","
			if d.Position.Line > 0 {
				properties += "line=" + strconv.Itoa(d.Position.Line) + ","
			}
			if d.Position.Line > 0 && d.Position.Column > 0 {
				properties += "col=" + strconv.Itoa(d.Position.Column) + ","
			}
		}
		p.printf("::%s %stitle=%s::%s\n", githubCommands[d.Severity], properties,
			githubProperty.Replace("rabbitctl "+text.Line(d.Code)), githubData.Replace(text.Safe(message(d))))
	}
}

// message is everything that a finding says, for programs that show one text:
// what is wrong, what to do, further places.
func message(d diag.Diagnostic) string {
	s := d.Summary
	if d.Position.IsZero() && d.Object != (topology.Key{}) && !strings.Contains(s, d.Object.Name) {
		s = d.Object.String() + ": " + s
	}
	if d.Detail != "" {
		s += "\n" + d.Detail
	}
	for i, r := range d.Related {
		if i == maxRelated {
			return s + "\nand " + strconv.Itoa(len(d.Related)-maxRelated) + " more"
		}
		s += "\n" + placed(r)
	}
	return s
}

// placed is a further place and what is said of it.
func placed(r diag.Related) string {
	if r.Position.IsZero() {
		return r.Text
	}
	return r.Position.String() + ": " + r.Text
}

// slashed is a file name as repositories have it: specs/a.yaml for
// ./specs/a.yaml.
func slashed(file string) string { return path.Clean(filepath.ToSlash(file)) }
