package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
)

func TestPageIsCurrent(t *testing.T) {
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, settings()) {
		t.Error("docs/settings.md is not what the table says: run go generate ./...")
	}
}

func TestPageHasEverySetting(t *testing.T) {
	text := string(settings())
	for i := range catalog.Settings {
		s := &catalog.Settings[i]
		for _, want := range []string{"\n### " + s.SpecKey() + "\n", s.Doc, s.Argument, s.PolicyKey} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the page lacks %q", s.Name, want)
			}
		}
	}
	for _, bad := range []string{"%!", "  -", "()", "none.\n- none"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	// Every link inside the page leads to a heading of its own.
	for _, m := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(text, "\n### "+m[1]+"\n") {
			t.Errorf("the link #%s leads nowhere", m[1])
		}
	}
}
