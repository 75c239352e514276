package graph

import (
	"fmt"
	"strings"
)

// palette is a class's fill and line colour on a light and on a dark ground. Red
// is for findings alone.
type palette struct{ fill, line, darkFill, darkLine string }

var classColors = map[Class]palette{
	ClassPublisher:  {"#f3f3f5", "#5b5f6b", "#2a2c33", "#a6abb8"},
	ClassExchange:   {"#e3ecfb", "#2f5fb3", "#1d2c47", "#7fabf5"},
	ClassQueue:      {"#e6f4ea", "#2d7a46", "#173022", "#69c78a"},
	ClassStream:     {"#e0f3f6", "#1b7887", "#12313a", "#5cc4d6"},
	ClassWait:       {"#fff3d1", "#8a6100", "#392c0c", "#e6b74d"},
	ClassDeadLetter: {"#efe4f6", "#6b3a8c", "#2f2140", "#c093e6"},
	ClassConsumer:   {"#f3f3f5", "#5b5f6b", "#2a2c33", "#a6abb8"},
	ClassMissing:    {"#ffffff", "#5b5f6b", "#17181c", "#a6abb8"},
}

// linkLooks say how links are drawn: colours and dashes, in SVG's units.
var linkLooks = map[Link]struct{ line, darkLine, dashes string }{
	LinkPublish:    {"#5b5f6b", "#a6abb8", ""},
	LinkBinding:    {"#2f5fb3", "#7fabf5", ""},
	LinkAlternate:  {"#2f5fb3", "#7fabf5", "2 4"},
	LinkDeadLetter: {"#6b3a8c", "#c093e6", "7 4"},
	LinkRetry:      {"#8a6100", "#e6b74d", "10 3 2 3"},
	LinkReturn:     {"#8a6100", "#e6b74d", ""},
	LinkConsume:    {"#5b5f6b", "#a6abb8", ""},
}

const (
	red     = "#c00020"
	darkRed = "#ff7383"
)

// styles is the style sheet of the drawing, for the SVG and the page. Colours are
// written out twice, since not every viewer of SVG knows variables.
func styles() string {
	var b strings.Builder
	b.WriteString(`svg{font-family:system-ui,"Segoe UI","Helvetica Neue","DejaVu Sans",Arial,sans-serif}
.name{font-size:12px;font-weight:600}.kind{font-size:10px}.code{font-size:10px;font-weight:600}
.label{font-size:10px;text-anchor:end;paint-order:stroke;stroke-width:3px;stroke-linejoin:round}
.title{font-size:16px;font-weight:600}.text{font-size:11px}
.shape{stroke-width:1.3}.marked .shape{stroke-width:3}
.line{fill:none;stroke-width:1.4}.return .line{stroke-width:2.2}.marked .line{stroke-width:2.6}.head{stroke:none}
.missing .shape,.copy .shape{stroke-dasharray:5 4}.ref{font-size:11px;cursor:pointer}
`)
	for _, l := range linkTitles {
		if d := linkLooks[l.Link].dashes; d != "" {
			fmt.Fprintf(&b, ".edge.%s .line{stroke-dasharray:%s}\n", l.Link, d)
		}
	}
	writeColors(&b, false)
	b.WriteString("@media (prefers-color-scheme:dark){\n")
	writeColors(&b, true)
	b.WriteString("}\n")
	return b.String()
}

func writeColors(b *strings.Builder, dark bool) {
	ground, ink, faint, bad := "#ffffff", "#1a1c22", "#52565f", red
	if dark {
		ground, ink, faint, bad = "#17181c", "#eceef2", "#b4b9c4", darkRed
	}
	fmt.Fprintf(b, ".ground{fill:%s}.name,.title,.text,.ref{fill:%s}.kind{fill:%s}.label{stroke:%s}\n", ground, ink, faint, ground)
	for _, c := range classTitles {
		p := classColors[c.Class]
		fill, line := p.fill, p.line
		if dark {
			fill, line = p.darkFill, p.darkLine
		}
		fmt.Fprintf(b, ".node.%s .shape{fill:%s;stroke:%s}\n", c.Class, fill, line)
	}
	for _, l := range linkTitles {
		line := linkLooks[l.Link].line
		if dark {
			line = linkLooks[l.Link].darkLine
		}
		fmt.Fprintf(b, ".edge.%s .line{stroke:%s}.edge.%s .head,.edge.%s .label{fill:%s}\n", l.Link, line, l.Link, l.Link, line)
	}
	fmt.Fprintf(b, ".node.marked .shape{stroke:%s}.edge.marked .line{stroke:%s}.edge.marked .head,.edge.marked .label,.code,.text.bad{fill:%s}\n", bad, bad, bad)
}
