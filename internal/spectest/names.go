package spectest

import (
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// words are names that YAML, shells, URLs, patterns or the spec language read as
// something else.
var words = []string{
	"yes", "null", "~", "1e3", "0x1", "017", "1_000", "true", "2026-01-01", "12:30:45", "<<", "=", ".", "..", "-", "- x", "? y", "a: b", "#c", "&a", "*a",
	"!t", "%25", "%2F", "a/b", "/", "//", "a b", " lead", "trail ", "'", `"`, `a"b`, "\\", "a\\b", "[x]", "{x}", "{n}", "{name}", "${x}", "$${", "${env:HOME}", "$",
	"^a$", "a.*", "(a|b)", "a+?", "\\d", "ü", "語", "😀", "e\u0301", "\u2028", "\u00a0", "\ufeff", "\u202e", "tab\tinside", "A", "|", ">", "@", "`", ",",
	"rabbit", "amqx", "None", "NaN", ".inf", "0", "-1", "1.5", "no", "on", "off", "y", "n",
}

// parts make names that belong together.
var parts = []string{"orders", "q", "work", ".retry", ".dead", ".dead-letter", ".1", ".2", ".30s", "_", "-", "x", "/", " ", "${"}

// name draws a name of a queue, exchange, policy ...
func (d *drawer) name(label string) string {
	switch d.number(label+" kind", 0, 9) {
	case 0, 1, 2:
		return d.text(label, words...)
	case 3:
		if d.chance(10, label+" long") {
			return strings.Repeat(d.text(label, "x", "é", "$"), 255)[:250] + "12345"
		}
	}
	all := rapid.SliceOfN(rapid.SampledFrom(parts), 1, 3).Draw(d.t, d.label+label)
	return strings.Join(all, "")
}

// names draws different names.
func (d *drawer) names(label string, least, most int) []string {
	var all []string
	for range d.number("number of "+label, least, most) {
		if n := d.name(label); !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

func (d *drawer) number(label string, least, most int) int {
	return rapid.IntRange(least, most).Draw(d.t, d.label+label)
}

// chance is true in so many of a hundred; shrinking prefers false.
func (d *drawer) chance(percent int, label string) bool {
	return rapid.IntRange(0, 99).Draw(d.t, d.label+label) >= 100-percent
}

func (d *drawer) text(label string, of ...string) string {
	return rapid.SampledFrom(of).Draw(d.t, d.label+label)
}

func (d *drawer) value(label string, of ...any) any {
	return rapid.SampledFrom(of).Draw(d.t, d.label+label)
}
