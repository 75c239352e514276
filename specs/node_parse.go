package specs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/rabbitctl/rabbitctl/internal/text"
)

// parse reads the documents of a file. What is no YAML is a finding; the
// documents before it are returned.
func (l *loader) parse(f File) (*source, []*yaml.Node) {
	data := bytes.TrimPrefix(f.Data, []byte("\ufeff"))
	if why, offset := notText(data); why != "" {
		before := string(bytes.ToValidUTF8(data[:offset], nil))
		src := &source{name: f.Name, lines: 1 + int32(strings.Count(before, "\n"))}
		col := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
		l.report(src.position(src.lines, int32(col)+1), "yaml-not-text", why, "A spec is a YAML file in UTF-8. Check that the right file was named.")
		return src, nil
	}
	src := newSource(f.Name, string(data))
	if len(data) > maxFileSize {
		l.report(src.position(1, 1), "yaml-too-large", fmt.Sprintf("the file has more than %d MiB", maxFileSize>>20), "Split it into several files.")
		return src, nil
	}
	var documents []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := decodeNext(decoder, &doc)
		if errors.Is(err, io.EOF) {
			return src, documents
		}
		if err != nil {
			l.syntax(src, data, err)
			return src, documents
		}
		if len(doc.Content) == 1 {
			documents = append(documents, doc.Content[0])
		}
	}
}

// decodeNext turns a panic of the YAML package into an error: no input may end
// the program.
func decodeNext(d *yaml.Decoder, doc *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	return d.Decode(doc)
}

var (
	yamlLine   = regexp.MustCompile(`^yaml: line (\d+): `)
	yamlAnchor = regexp.MustCompile(`^unknown anchor '(.+)' referenced$`)
)

// syntax reports what the YAML package says of a file.
func (l *loader) syntax(src *source, data []byte, err error) {
	message, line, col := err.Error(), 1, 1
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = message[len(m[0]):]
	}
	message = strings.TrimPrefix(message, "yaml: ")
	if strings.HasPrefix(message, "did not find expected") || strings.HasPrefix(message, "found undefined tag") {
		line++ // the parser, unlike the scanner, counts lines from 0
	}
	if m := yamlAnchor.FindStringSubmatch(message); m != nil {
		line, col = find(string(data), "*"+m[1])
	}
	detail := "Check the indentation, the colons and the brackets here and in the lines before."
	if strings.Contains(message, "cannot start any token") && strings.HasPrefix(lineOf(data, line), "\t") {
		detail = "The line begins with a tab: YAML is indented with blanks."
	}
	if strings.Contains(string(data), "${") {
		detail += ` Inside { } and [ ] a variable needs quotes: "${name}".`
	}
	l.report(src.position(int32(line), int32(col)), "yaml-syntax", "this is not YAML: "+text.Line(message), detail)
}

// lineOf is the text of a line, from 1.
func lineOf(data []byte, line int) string {
	for text := range strings.Lines(string(data)) {
		if line--; line == 0 {
			return text
		}
	}
	return ""
}

// find returns the line and column at which part begins in a file.
func find(file, part string) (line, col int) {
	i := strings.Index(file, part)
	if i < 0 {
		return 1, 1
	}
	before := file[:i]
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

func (l *loader) converter(src *source, vars *scope) *converter {
	return &converter{loader: l, src: src, vars: vars, done: map[*yaml.Node]*node{}, open: map[*yaml.Node]bool{}}
}
