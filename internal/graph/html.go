package graph

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page's script and style sheet
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
)

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// HTML writes the drawing as one page that needs nothing else: no network, no
// other file. Its content security policy allows only its own script and styles,
// so that no text of a topology can become either.
func HTML(out io.Writer, d *Drawing) error {
	p := newPicture(d)
	data, err := json.Marshal(pageDataOf(p)) // escapes <, > and & for the script element
	if err != nil {
		return fmt.Errorf("encode the drawing: %w", err)
	}
	css := styles() + pageCSS
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
	fmt.Fprintf(w, `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'">`+"\n",
		hash(pageJS), hash(css))
	fmt.Fprintf(w, `<meta name="viewport" content="width=device-width, initial-scale=1">`+"\n"+`<link rel="icon" href="data:,">`+"\n")
	fmt.Fprintf(w, "<title>%s</title>\n<style>%s</style>\n</head>\n<body>\n", markup(d.Title), css)
	fmt.Fprintf(w, `<header><h1>%s</h1>
<label>Search <input id="search" type="search" autocomplete="off" spellcheck="false" placeholder="name, setting, finding"></label>
<span id="count" role="status"></span>
<span><button id="farther" type="button" aria-label="zoom out">−</button> <button id="closer" type="button" aria-label="zoom in">+</button> <button id="all" type="button">Show all</button></span>
</header>
`, markup(d.Title))
	fmt.Fprintf(w, `<main id="stage" tabindex="0" aria-label="drawing"><svg aria-label="%s"><g id="scene">`+"\n", markup(d.Title))
	p.write(w, false)
	fmt.Fprintf(w, "</g></svg></main>\n<aside>\n")
	for _, n := range d.Notes {
		fmt.Fprintf(w, "<p class=\"faint\">%s</p>\n", markup(n))
	}
	fmt.Fprintf(w, `<section id="details" aria-live="polite"></section>`+"\n")
	writePageFindings(w, d)
	writePageLegend(w, d)
	fmt.Fprintf(w, `<h2>Keys</h2>
<p class="faint">/ search, Enter next match, Esc back; Tab and arrows from node to node, Enter keeps its details; + and − zoom, 0 shows all; arrows and Page keys move. Drag moves, the wheel zooms, with Shift it moves.</p>
</aside>
`)
	fmt.Fprintf(w, "<script type=\"application/json\" id=\"data\">%s</script>\n<script>%s</script>\n</body>\n</html>\n", data, pageJS)
	return w.Flush()
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func writePageFindings(w io.Writer, d *Drawing) {
	all := d.findings()
	if len(all) == 0 {
		fmt.Fprintf(w, "<h2>No findings</h2>\n")
		return
	}
	fmt.Fprintf(w, "<h2>Findings (%d)</h2>\n<ul>\n", len(all))
	for _, severity := range []diag.Severity{diag.Error, diag.Warning, diag.Info} {
		class := "bad"
		if severity == diag.Info {
			class = ""
		}
		for _, f := range all {
			switch {
			case f.Severity != severity:
			case f.id == "":
				fmt.Fprintf(w, "<li><p class=\"%s\">%s</p></li>\n", class, markup(sentence(f.Diagnostic)))
			default:
				fmt.Fprintf(w, "<li><button type=\"button\" class=\"%s\" data-id=\"%s\">%s</button></li>\n", class, f.id,
					markup(string(f.Severity)+" "+f.Code+": "+f.Summary))
			}
		}
	}
	fmt.Fprintf(w, "</ul>\n")
}

const legendWidth = 300

func writePageLegend(w io.Writer, d *Drawing) {
	items := d.legend()
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(w, `<h2>Legend</h2><svg class="legend" height="%d" viewBox="0 0 %d %d" preserveAspectRatio="xMinYMin" role="img" aria-label="legend">`+"\n",
		len(items)*legendStep, legendWidth, len(items)*legendStep)
	for i, item := range items {
		writeSample(w, item, 1, i*legendStep+2)
		fmt.Fprintf(w, `<text class="text" x="%d" y="%d">%s</text>`+"\n", sampleSize+12, i*legendStep+16, markup(item.title))
	}
	fmt.Fprintf(w, "</svg>\n")
}

// pageData is what the page's script reads.
type pageData struct {
	Width  int        `json:"width"`
	Height int        `json:"height"`
	Nodes  []pageNode `json:"nodes"`
	Edges  []pageEdge `json:"edges"`
}

type pageNode struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Kind     string        `json:"kind"`
	VHost    string        `json:"vhost"`
	Settings []pageSetting `json:"settings"`
	Findings []pageFinding `json:"findings"`
}

type pageSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin,omitempty"`
}

type pageFinding struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Text     string `json:"text"`
}

type pageEdge struct {
	ID       string        `json:"id"`
	From     string        `json:"from"`
	To       string        `json:"to"`
	Title    string        `json:"title"`
	Labels   []string      `json:"labels"`
	Findings []pageFinding `json:"findings"`
}

func pageDataOf(p *picture) pageData {
	d := p.drawing
	data := pageData{Width: max(p.width, 1), Height: max(p.height, 1), Nodes: []pageNode{}, Edges: []pageEdge{}}
	for _, n := range d.Nodes {
		node := pageNode{
			ID: n.ID, Name: text.Line(n.Name), Kind: text.Line(n.Kind), VHost: text.Line(n.VirtualHost),
			Settings: []pageSetting{}, Findings: pageFindings(n.Findings),
		}
		for _, s := range n.Settings {
			node.Settings = append(node.Settings, pageSetting{text.Line(s.Name), text.Line(s.Value), text.Line(s.Origin)})
		}
		data.Nodes = append(data.Nodes, node)
	}
	titles := map[Link]string{}
	for _, l := range linkTitles {
		titles[l.Link] = strings.SplitN(l.Title, ":", 2)[0]
	}
	for _, e := range d.Edges {
		edge := pageEdge{ID: e.ID, From: e.From.ID, To: e.To.ID, Title: titles[e.Link], Labels: []string{}, Findings: pageFindings(e.Findings)}
		for _, l := range e.Labels {
			edge.Labels = append(edge.Labels, text.Line(l))
		}
		data.Edges = append(data.Edges, edge)
	}
	return data
}

func pageFindings(list diag.List) []pageFinding {
	all := []pageFinding{}
	for _, f := range list {
		all = append(all, pageFinding{string(f.Severity), f.Code, sentence(f)})
	}
	return all
}
