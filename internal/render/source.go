package render

import (
	"bytes"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// sourceLines finds lines of sources. Where they begin is worked out once for
// each file: a spec of many megabytes can have a finding on every line.
type sourceLines struct {
	sources map[string][]byte
	starts  map[string][]int
}

func newSourceLines(sources map[string][]byte) sourceLines {
	return sourceLines{sources, map[string][]int{}}
}

// at is the line of a position without its end.
func (l sourceLines) at(pos topology.Position) (string, bool) {
	data, known := l.sources[pos.File]
	if !known || data == nil || pos.Line < 1 {
		return "", false
	}
	starts, known := l.starts[pos.File]
	if !known {
		starts = []int{0}
		for i, c := range data {
			if c == '\n' {
				starts = append(starts, i+1)
			}
		}
		l.starts[pos.File] = starts
	}
	if pos.Line > len(starts) {
		return "", false
	}
	line, _, _ := bytes.Cut(data[starts[pos.Line-1]:], []byte{'\n'})
	return strings.ToValidUTF8(strings.TrimSuffix(string(line), "\r"), "\uFFFD"), true
}
