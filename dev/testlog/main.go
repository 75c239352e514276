// Command testlog reads the output of go test -json. It prints go test's closing line of each package, the whole output of the
// tests that failed, and at the end the skipped tests by the reason that they gave. It exits with 1 when a test failed and, with -no-skips, when one was skipped for
// another reason than that it takes long (see brokertest.Long): a test that silently stopped running looks like one that passes.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

func main() {
	noSkips := flag.Bool("no-skips", false, "fail when a test was skipped")
	flag.Parse()
	result, err := read(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
	if result.failed || *noSkips && result.skipped > 0 {
		os.Exit(1)
	}
}

// An event is a line of go test -json; see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

type result struct {
	failed  bool
	skipped int // without those that take long
}

type test struct{ pkg, name string }

func read(in io.Reader, out io.Writer) (result, error) {
	var (
		r       result
		outputs = map[test]*strings.Builder{} // of the tests that have not ended
		order   []test
		skips   = map[string][]test{} // by reason
	)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil { // a message of the go command
				out.Write(line)
				e = event{}
			}
			t := test{e.Package, e.Test}
			switch {
			case e.Action == "build-output":
				io.WriteString(out, e.Output)
			case e.Action == "build-fail":
				r.failed = true
			case e.Action == "output" && e.Test == "":
				if e.Output != "PASS\n" && e.Output != "FAIL\n" {
					io.WriteString(out, e.Output)
				}
			case e.Action == "output":
				if outputs[t] == nil {
					outputs[t] = &strings.Builder{}
					order = append(order, t)
				}
				outputs[t].WriteString(e.Output)
			case e.Action == "fail" && e.Test == "":
				r.failed = true
				for _, t := range order { // those that a panic or a time limit cut off
					if t.pkg == e.Package && outputs[t] != nil {
						io.WriteString(out, outputs[t].String())
						delete(outputs, t)
					}
				}
			case e.Test != "" && (e.Action == "fail" || e.Action == "skip" || e.Action == "pass"):
				output := ""
				if outputs[t] != nil {
					output = outputs[t].String()
				}
				delete(outputs, t)
				if e.Action == "fail" {
					r.failed = true
					fmt.Fprintf(out, "--- %s\n%s", e.Package, output)
				}
				if e.Action == "skip" {
					why := reason(output)
					skips[why] = append(skips[why], t)
					if !strings.Contains(output, "RABBITCTL_LONG=1") {
						r.skipped++
					}
				}
			}
		}
		if err == io.EOF {
			for _, why := range slices.Sorted(maps.Keys(skips)) {
				tellSkips(out, why, skips[why])
			}
			return r, nil
		}
		if err != nil {
			return r, err
		}
	}
}

// tellSkips prints the tests that were skipped for one reason, a line for each package.
func tellSkips(out io.Writer, why string, tests []test) {
	fmt.Fprintf(out, "skipped %d: %s\n", len(tests), why)
	names := map[string][]string{}
	for _, t := range tests {
		names[t.pkg] = append(names[t.pkg], t.name)
	}
	for _, pkg := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(out, "  %s: %s\n", path.Base(pkg), strings.Join(names[pkg], " "))
	}
}

var position = regexp.MustCompile(`^\w+\.go:\d+: `)

// reason returns what a test said before it was skipped.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, position.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(said, " ")
}
