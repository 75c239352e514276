package command_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/command"
)

const readmeFile = "../../README.md"

// step is one command of the README's tour with the output that it shows.
type step struct {
	line   int
	args   []string
	output string
}

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// tour reads the README's console blocks.
func tour(readme string) []step {
	var steps []step
	for _, m := range consoleBlock.FindAllStringSubmatchIndex(readme, -1) {
		line := 1 + strings.Count(readme[:m[2]], "\n")
		for _, text := range strings.SplitAfter(readme[m[2]:m[3]], "\n") {
			if c, ok := strings.CutPrefix(text, "$ rabbitctl "); ok {
				steps = append(steps, step{line: line, args: strings.Fields(c)})
			} else if len(steps) > 0 {
				steps[len(steps)-1].output += text
			}
			line++
		}
	}
	return steps
}

// TestReadmeTour types what the README shows, on a real broker, and compares
// every line of output. Names of the test's virtual host, the broker's address
// and version are brought to those of the README. -update writes them there.
func TestReadmeTour(t *testing.T) {
	data, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	readme := string(data)
	steps := tour(readme)
	shown := ""
	for _, s := range steps {
		shown += s.args[0] + " "
	}
	if shown != "plan init validate plan apply plan check " {
		t.Fatalf("the README shows the commands %s", shown)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	b := brokertest.One(t)
	vhost := b.VirtualHost(t)
	dir := t.TempDir()
	for _, s := range steps {
		args := make([]string, len(s.args))
		for i, a := range s.args {
			switch {
			case strings.Contains(a, "/"):
				args[i] = filepath.Join(root, a)
			case strings.HasSuffix(a, ".yaml") || strings.HasSuffix(a, ".json"):
				args[i] = filepath.Join(dir, a)
			default:
				args[i] = a
			}
		}
		var out bytes.Buffer
		streams := command.Streams{In: strings.NewReader(""), Out: &out, Err: &out, Environ: append(environment(b, b.Username, b.Password), "HOME=/nonexistent")}
		if status := command.Run(t.Context(), args, streams); status != 0 {
			t.Errorf("README line %d: exit status %d", s.line, status)
		}
		got := strings.NewReplacer(
			dir+"/", "", root+"/", "", fmt.Sprintf("%q", vhost), `"/"`, b.URL, "http://localhost:15672", "RabbitMQ "+b.Version, "RabbitMQ 4.3.6",
		).Replace(out.String())
		if *update {
			command := "$ rabbitctl " + strings.Join(s.args, " ") + "\n"
			readme = strings.Replace(readme, command+s.output, command+got, 1)
		} else if got != s.output {
			t.Errorf("README line %d, rabbitctl %s\n--- got\n%s--- README\n%s", s.line, strings.Join(s.args, " "), got, s.output)
		}
		rename(t, dir, vhost)
	}
	if *update {
		if err := os.WriteFile(readmeFile, []byte(readme), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// rename moves the spec that the tour has written into the test's virtual host.
func rename(t *testing.T, dir, vhost string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.Replace(data, []byte("\nvhost: /\n"), []byte(fmt.Sprintf("\nvhost: %q\n", vhost)), 1)
		if err := os.WriteFile(f, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadmeExitTable holds the README's table against the one in the code.
func TestReadmeExitTable(t *testing.T) {
	data, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	readme := strings.ReplaceAll(string(data), "`", "")
	for _, m := range command.ExitMeanings {
		if row := fmt.Sprintf("| %d | %s |\n", m.Exit, m.Meaning); !strings.Contains(readme, row) {
			t.Errorf("the README lacks the row %s", row)
		}
	}
}
