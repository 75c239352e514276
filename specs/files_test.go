package specs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
)

// inFolder writes files below a new folder and makes it the current one.
func inFolder(t *testing.T, names ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("version: 1 # "+name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func fileNames(files []File) []string {
	var names []string
	for _, f := range files {
		names = append(names, filepath.ToSlash(f.Name))
	}
	return names
}

func TestReadFiles(t *testing.T) {
	inFolder(t, "s/b.yaml", "s/a.yml", "s/sub/c.yaml", "s/.hidden/d.yaml", "s/.e.yaml", "s/readme.md", "one.txt", "empty/readme")
	if err := os.Symlink(filepath.Join("..", "one.txt"), "s/link.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", "s/dangling.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".", "s/loop"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want, findings string }{
		{"s", "s/a.yml s/b.yaml s/link.yaml s/sub/c.yaml", ""},
		{"s/", "s/a.yml s/b.yaml s/link.yaml s/sub/c.yaml", ""},
		{"one.txt s/.e.yaml", "one.txt s/.e.yaml", ""},
		{"s/b.yaml ./s/b.yaml s", "s/b.yaml s/a.yml s/link.yaml s/sub/c.yaml", ""},
		{"s/.hidden", "s/.hidden/d.yaml", ""},
		{"- - s/b.yaml", "<stdin> s/b.yaml", ""},
		{"none.yaml s/b.yaml other.yaml", "s/b.yaml", "none.yaml file-unreadable; other.yaml file-unreadable"},
		{"empty", "", "empty no-spec-files"},
		{"", "", ""},
	} {
		files, list, err := ReadFiles(strings.Fields(c.args), strings.NewReader("version: 1\n"))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
		}
		var found []string
		for _, d := range list {
			found = append(found, d.Position.String()+" "+d.Code)
			if !d.Structural {
				t.Errorf("%s is not structural", d.Code)
			}
		}
		if got := strings.Join(fileNames(files), " "); got != c.want || strings.Join(found, "; ") != c.findings {
			t.Errorf("%s: got %q, %q", c.args, got, found)
		}
	}
	files, _, err := ReadFiles([]string{"s/b.yaml", "-"}, strings.NewReader("from stdin"))
	if err != nil || string(files[0].Data) != "version: 1 # s/b.yaml\n" || string(files[1].Data) != "from stdin" {
		t.Errorf("got %q, %v", files, err)
	}
	broken := errors.New("broken")
	if _, _, err := ReadFiles([]string{"-"}, iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestReadFS(t *testing.T) {
	fsys := fstest.MapFS{
		"a.yaml": {Data: []byte("version: 1\n")}, "d/b.yml": {Data: []byte("b")}, "d/c.txt": {}, "d/.x/y.yaml": {}, "d/.z.yaml": {}, "d/e/f.yaml": {},
	}
	files, err := ReadFS(fsys, "a.yaml", "d", "d/c.txt")
	if got := fileNames(files); err != nil || !slices.Equal(got, []string{"a.yaml", "d/b.yml", "d/e/f.yaml", "d/c.txt"}) || string(files[1].Data) != "b" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := ReadFS(fsys, "a.yaml", "none.yaml"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `"none.yaml"`) {
		t.Errorf("got %v", err)
	}
}

// TestWrittenSpecs reads every spec of the project: all must be understood.
func TestWrittenSpecs(t *testing.T) {
	for _, pattern := range []string{"examples/*.yaml", "../testdata/real/*.spec.yaml", "../testdata/specs/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			files, list, err := ReadFiles([]string{name}, nil)
			if err != nil || len(list) > 0 {
				t.Fatal(err, texts(list))
			}
			spec, list := Load(Input{Files: files})
			if len(list) > 0 || len(spec.VirtualHosts) == 0 {
				t.Errorf("%s", texts(list))
			}
		}
	}
}
