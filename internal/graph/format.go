package graph

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Format is a way to write a drawing.
type Format struct {
	Name string
	// Extensions are those of files in this format; they choose it for --output.
	Extensions []string
	Write      func(io.Writer, *Drawing) error
}

// Formats lists the formats, the default first.
var Formats = []Format{
	{"mermaid", []string{".mmd", ".mermaid"}, Mermaid},
	{"dot", []string{".dot", ".gv"}, DOT},
	{"svg", []string{".svg"}, SVG},
	{"html", []string{".html", ".htm"}, HTML},
}

// FormatNames lists the names of the formats for a message.
func FormatNames() string {
	names := make([]string, len(Formats))
	for i, f := range Formats {
		names[i] = f.Name
	}
	return strings.Join(names, ", ")
}

// ParseFormat finds a format by its name; with an empty name by the extension of
// a file, else the default.
func ParseFormat(name, file string) (Format, error) {
	extension := strings.ToLower(filepath.Ext(file))
	for _, f := range Formats {
		if f.Name == name {
			return f, nil
		}
		for _, e := range f.Extensions {
			if name == "" && extension == e {
				return f, nil
			}
		}
	}
	if name != "" {
		return Format{}, fmt.Errorf("there is no format %q here; choose one of %s", name, FormatNames())
	}
	return Formats[0], nil
}
