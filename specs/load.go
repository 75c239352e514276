package specs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Load reads files into a Spec. What is wrong in them are findings, all at once;
// the Spec holds whatever could be read. A structural finding means that it must
// not be used for more than showing it.
func Load(in Input) (*Spec, diag.List) {
	l := newLoader()
	spec := &Spec{Files: map[string][]byte{}}
	for _, f := range in.Values {
		spec.Files[f.Name] = f.Data
	}
	l.givenVariables(in)
	var documents []*document
	for _, f := range in.Files {
		spec.Files[f.Name] = f.Data
		documents = append(documents, l.file(f)...)
	}
	if len(documents) == 0 && len(l.list) == 0 {
		l.noDocument(in)
	}
	spec.VirtualHosts = l.assemble(documents)
	if len(spec.VirtualHosts) > 1 && len(spec.Versions()) == 0 {
		l.report(spec.VirtualHosts[0].At["requires.rabbitmq"], "requires-conflict",
			"no known version of RabbitMQ is allowed by the requires of every virtual host",
			"All virtual hosts are on one broker: bring their requires together.")
	}
	l.unknownSet(in)
	l.list.Sort()
	return spec, l.list
}

func (l *loader) noDocument(in Input) {
	where := noPosition
	if len(in.Files) > 0 {
		where = topology.Position{File: in.Files[0].Name, Line: 1, Column: 1}
	}
	l.report(where, "spec-empty", "there is no spec: nothing but blanks and comments", "A spec begins with: version: 1")
}

// stdinName is how findings name the standard input.
const stdinName = "<stdin>"

// ReadFiles reads the files that arguments name: a file, a folder (every *.yaml
// and *.yml below it in the order of their paths, hidden ones left out) or "-"
// for stdin. What cannot be found or opened is a finding; the error is for
// reading that failed half-way. A file named twice is read once.
func ReadFiles(args []string, stdin io.Reader) ([]File, diag.List, error) {
	r := reader{seen: map[string]bool{}}
	for _, arg := range args {
		var err error
		if arg == "-" {
			err = r.stdin(stdin)
		} else {
			err = r.argument(arg)
		}
		if err != nil {
			return nil, r.findings, err
		}
	}
	return r.files, r.findings, nil
}

type reader struct {
	files    []File
	findings diag.List
	seen     map[string]bool
}

func (r *reader) report(name, code, summary, detail string) {
	r.findings.Add(diag.Diagnostic{
		Severity: diag.Error, Code: code, Summary: summary, Detail: detail,
		Position: topology.Position{File: name}, Structural: true,
	})
}

func (r *reader) first(name string) bool {
	first := !r.seen[name]
	r.seen[name] = true
	return first
}

func (r *reader) stdin(in io.Reader) error {
	if !r.first("-") {
		return nil
	}
	return r.read(stdinName, in)
}

func (r *reader) argument(arg string) error {
	info, err := os.Stat(arg)
	if err != nil {
		r.unreadable(arg, err)
		return nil
	}
	if !info.IsDir() {
		return r.file(arg)
	}
	before := len(r.seen)
	err = filepath.WalkDir(arg, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			r.unreadable(name, err)
		case name != arg && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return filepath.SkipDir
			}
		case isSpecName(name) && isFile(name, e):
			return r.file(name)
		}
		return nil
	})
	if err == nil && len(r.seen) == before && len(r.findings) == 0 {
		r.report(arg, "no-spec-files", fmt.Sprintf("the folder %q holds no *.yaml or *.yml file", arg), "Name a file, or another folder.")
	}
	return err
}

func isSpecName(name string) bool {
	ext := path.Ext(filepath.ToSlash(name))
	return ext == ".yaml" || ext == ".yml"
}

// isFile follows links: mounted configuration is made of links to files.
func isFile(name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.Type().IsRegular()
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

func (r *reader) file(name string) error {
	if !r.first(filepath.Clean(name)) {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		r.unreadable(name, err)
		return nil
	}
	defer f.Close()
	return r.read(name, f)
}

func (r *reader) read(name string, in io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(in, maxFileSize+1))
	if err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	r.files = append(r.files, File{Name: name, Data: data})
	return nil
}

func (r *reader) unreadable(name string, err error) {
	reason := err.Error()
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		reason = pathError.Err.Error()
	}
	r.report(name, "file-unreadable", fmt.Sprintf("cannot read %q: %s", name, reason), "Check the path and its permissions.")
}

// ReadFS reads files and folders of a file system, such as one that a service
// embeds. Folders are read as ReadFiles does. A name that is not there is an
// error.
func ReadFS(fsys fs.FS, names ...string) ([]File, error) {
	var files []File
	for _, name := range names {
		err := fs.WalkDir(fsys, name, func(p string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case p != name && strings.HasPrefix(e.Name(), "."):
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			case e.IsDir() || p != name && !isSpecName(p):
				return nil
			}
			data, err := fs.ReadFile(fsys, p)
			if err == nil {
				files = append(files, File{Name: p, Data: data})
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read spec %q: %w", name, err)
		}
	}
	return files, nil
}
