package command

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/export"
	display "github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func exportCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "from", Usage: "read an exported definitions `FILE` instead of a broker"},
		&cli.StringSliceFlag{Name: "vhost", Usage: "the virtual host `NAME`; may be repeated (default: / of a broker, all of a file)"},
		&cli.StringFlag{Name: "output", Usage: "write the spec to `FILE`, which must not exist, instead of standard output"},
		&cli.StringFlag{Name: "out", Usage: "write a file for each virtual host into the folder `DIR`; none of them may exist"},
		rabbitmqFlag(),
	}
	return &cli.Command{
		Name:  "export",
		Usage: "write what is on a broker, or in a definitions file, as a spec",
		UsageText: "rabbitctl export --vhost shop --output shop.yaml\n" +
			"rabbitctl export --from definitions.json > specs.yaml     without a broker\n" +
			"rabbitctl export --from definitions.json --out specs      a file for each virtual host",
		Description: "plan of the spec against the same broker or file is empty. Passwords in parameters\n" +
			"become references to environment variables; users are left out. docs/export.md has more.",
		Flags:  joinFlags(flags, connectionFlags()),
		Action: func(c *cli.Context) error { return runExport(c, s) },
	}
}

func runExport(c *cli.Context, s Streams) error {
	if c.Args().Present() {
		return usagef("export takes no argument %q; --from names a definitions file, --output the spec to write", c.Args().First())
	}
	if c.String("output") != "" && c.String("out") != "" {
		return usagef("--output writes one file, --out one for each virtual host: give one of them")
	}
	state, findings, err := exportState(c, s)
	if err != nil {
		return err
	}
	if findings.HasErrors() {
		return errors.Join(showFindings(s, findings, nil), exit(ExitFindings))
	}
	in := export.Input{Topology: state.Topology, Version: state.Version, LeftOut: state.LeftOut}
	var text []byte
	var documents []export.Document
	var more diag.List
	if c.String("out") != "" {
		documents, more = export.Documents(in)
	} else {
		text, more = export.Spec(in)
	}
	// What the reader says of bindings without ends is said of the spec here.
	findings = slices.DeleteFunc(findings, func(d diag.Diagnostic) bool { return d.Code == "definitions-end-missing" })
	findings = append(findings, more...)
	for _, kind := range slices.Sorted(maps.Keys(state.Unknown)) {
		findings.Add(diag.Diagnostic{
			Severity: diag.Warning, Code: "not-exported",
			Summary: fmt.Sprintf("%s objects are not exported: %s", kind.Title(), state.Unknown[kind]),
			Detail:  "Where a user's rights are the reason, log in as an administrator.",
		})
	}
	for _, section := range slices.Sorted(maps.Keys(state.Others)) {
		findings.Add(diag.Diagnostic{
			Severity: diag.Info, Code: "not-exported",
			Summary: fmt.Sprintf("%s under %q in the file not exported", display.Plural(state.Others[section], "entry is", "entries are"), section),
			Detail:  "They belong to no virtual host, or to a version that is not known yet. Hashes of passwords are never written.",
		})
	}
	if err := showFindings(s, findings, nil); err != nil {
		return err
	}
	if folder := c.String("out"); folder != "" {
		return writeDocuments(s, folder, documents)
	}
	name := c.String("output")
	if name == "" {
		_, err := s.Out.Write(text)
		return err
	}
	if err := writeNew(name, text); err != nil {
		return err
	}
	fmt.Fprintf(s.Err, "wrote %s; next: rabbitctl validate %s\n", safeLine(name), safeLine(name))
	return nil
}

// writeNew writes a file that must not exist.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	return nil
}

// writeDocuments writes one file for each virtual host, or none where one of them
// exists.
func writeDocuments(s Streams, folder string, documents []export.Document) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write the specs: %w", err)
	}
	taken := map[string]bool{}
	names := make([]string, len(documents))
	for i, d := range documents {
		base := fileName(d.VirtualHost)
		name := base
		for n := 2; taken[strings.ToLower(name)]; n++ { // some file systems know no case
			name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[strings.ToLower(name)] = true
		names[i] = filepath.Join(folder, name+".yaml")
		if _, err := os.Lstat(names[i]); err == nil {
			return fail(ExitFailure, fmt.Errorf("%s exists; export overwrites nothing", safeLine(names[i])))
		}
	}
	for i, d := range documents {
		if err := writeNew(names[i], d.Text); err != nil {
			return err
		}
		fmt.Fprintf(s.Err, "wrote %s: virtual host %q\n", safeLine(names[i]), d.VirtualHost)
	}
	fmt.Fprintf(s.Err, "next: rabbitctl validate %s\n", safeLine(folder))
	return nil
}

// fileName is a name that every file system takes and a folder given as spec does
// not pass over.
func fileName(vhost string) string {
	if vhost == "/" {
		return "default"
	}
	name := strings.TrimLeft(notInFileNames.ReplaceAllString(vhost, "_"), ".-")
	if name == "" {
		return "vhost"
	}
	return name[:min(len(name), 200)]
}

var notInFileNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// exportState reads what is to be exported.
func exportState(c *cli.Context, s Streams) (*broker.State, diag.List, error) {
	version, err := versionFlag(c)
	if err != nil {
		return nil, nil, err
	}
	names := c.StringSlice("vhost")
	if file := c.String("from"); file != "" {
		only := ""
		if len(names) == 1 {
			only = names[0] // an export of one virtual host does not name it
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, fmt.Errorf("read definitions: %w", err)
		}
		defer f.Close()
		state, findings, err := broker.ReadDefinitions(f, file, only)
		if err != nil || findings.HasErrors() {
			return state, findings, err
		}
		if !version.IsZero() {
			state.Version = version
		}
		for _, n := range names {
			if state.Topology.VirtualHost(n) == nil {
				return nil, nil, fail(ExitFailure, fmt.Errorf("virtual host %q is not in the file", n))
			}
		}
		state.Topology.VirtualHosts = slices.DeleteFunc(state.Topology.VirtualHosts, func(v *topology.VirtualHost) bool {
			return len(names) > 0 && !slices.Contains(names, v.Name)
		})
		return state, findings, nil
	}
	if !version.IsZero() {
		return nil, nil, usagef("--rabbitmq belongs to --from: a broker tells its own version")
	}
	client, _, err := connect(c, s, nil)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	if len(names) == 0 {
		names = []string{"/"}
	}
	state, err := client.Read(c.Context, names, broker.ReadOptions{Limits: true, Parameters: true, Permissions: true, LeftOut: true})
	if err != nil {
		return nil, nil, brokerError(err)
	}
	if len(state.Missing) > 0 {
		return nil, nil, fail(ExitFailure, fmt.Errorf("virtual host %q is not there, or this user has no permission in it", state.Missing[0]))
	}
	return state, nil, nil
}
