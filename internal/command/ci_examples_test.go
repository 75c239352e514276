package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"
)

// TestPipelineExamples: the examples in docs/ci are YAML, and each command line in
// them is one that rabbitctl takes.
func TestPipelineExamples(t *testing.T) {
	files, err := filepath.Glob("../../docs/ci/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var lines [][]string
		decoder := yaml.NewDecoder(strings.NewReader(string(data)))
		for {
			var document any
			if err := decoder.Decode(&document); err != nil {
				if len(lines) == 0 || err.Error() != "EOF" {
					t.Errorf("%s: %v, %d command lines", file, err, len(lines))
				}
				break
			}
			commandLines(document, &lines)
		}
		for _, line := range lines {
			if err := parses(t, line); err != nil {
				t.Errorf("%s: rabbitctl %s: %v", file, strings.Join(line, " "), err)
			}
		}
	}
	if err := parses(t, []string{"plan", "--detailed-exit", "x"}); err == nil {
		t.Error("a wrong flag passes")
	}
}

// commandLines collects the arguments of every rabbitctl command in a document.
func commandLines(node any, to *[][]string) {
	switch node := node.(type) {
	case map[string]any:
		if args, ok := node["args"].([]any); ok {
			line := make([]string, len(args))
			for i, a := range args {
				line[i], _ = a.(string)
			}
			*to = append(*to, line)
		}
		for _, v := range node {
			commandLines(v, to)
		}
	case []any:
		for _, v := range node {
			commandLines(v, to)
		}
	case string:
		if words := strings.Fields(node); len(words) > 1 && words[0] == "rabbitctl" {
			line := words[1:]
			for i, w := range line {
				if w == ">" {
					line = line[:i]
					break
				}
			}
			*to = append(*to, line)
		}
	}
}

// parses reads a command line with the real flags and does not run it.
func parses(t *testing.T, args []string) error {
	t.Helper()
	app := newApp(Streams{In: strings.NewReader(""), Out: &strings.Builder{}, Err: &strings.Builder{}})
	for _, c := range app.Commands {
		c.Action = func(*cli.Context) error { return nil }
	}
	arranged, err := arrange(app.Commands, args)
	if err != nil {
		return err
	}
	return app.Run(append([]string{"rabbitctl"}, arranged...))
}
