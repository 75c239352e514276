package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is a RabbitMQ version. The zero Version means unknown. Patch 0 stands for
// the series, which ranges read as its newest release: who says 4.3 means a 4.3 that
// is kept up to date, and 4.3.0 itself is not told apart from it.
type Version struct{ Major, Minor, Patch int }

// V is the version major.minor.0.
func V(major, minor int) Version { return Version{Major: major, Minor: minor} }

// Releases are the release series that the catalog knows, oldest first. Those
// measured on real brokers are 3.10, 4.0 and 4.3.
var Releases = []Version{V(3, 10), V(3, 11), V(3, 12), V(3, 13), V(4, 0), V(4, 1), V(4, 2), V(4, 3)}

// Oldest and Newest are the ends of Releases.
var (
	Oldest = Releases[0]
	Newest = Releases[len(Releases)-1]
)

// ParseVersion reads "4.3", "4.3.6" or "4.3.0-beta.1" (the suffix is ignored).
func ParseVersion(s string) (Version, error) {
	head, _, _ := strings.Cut(strings.TrimSpace(s), "-")
	head, _, _ = strings.Cut(head, "+")
	parts := strings.Split(head, ".")
	if len(parts) > 4 {
		return Version{}, fmt.Errorf("%q is no RabbitMQ version such as 4.3 or 3.10.8", s)
	}
	var n [4]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil || v < 0 || v > newestPatch {
			return Version{}, fmt.Errorf("%q is no RabbitMQ version such as 4.3 or 3.10.8", s)
		}
		n[i] = v
	}
	if n[0] == 0 {
		return Version{}, fmt.Errorf("%q is no RabbitMQ version such as 4.3 or 3.10.8", s)
	}
	return Version{n[0], n[1], n[2]}, nil
}

// IsZero reports whether the version is unknown.
func (v Version) IsZero() bool { return v == Version{} }

// Compare orders versions.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// AtLeast reports whether v is w or later.
func (v Version) AtLeast(w Version) bool { return v.Compare(w) >= 0 }

// Below reports whether v is earlier than w.
func (v Version) Below(w Version) bool { return v.Compare(w) < 0 }

// Series is the release series: 4.3 for 4.3.6.
func (v Version) Series() Version { return V(v.Major, v.Minor) }

// String is "4.3" for a series and "4.3.6" for a release.
func (v Version) String() string {
	if v.Patch == 0 {
		return fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// Range is a span of versions: Since included, Until excluded; a zero Since or
// Until is open.
type Range struct{ Since, Until Version }

// newestPatch is above every patch release.
const newestPatch = 9999

// Has reports whether v lies in the range.
func (r Range) Has(v Version) bool {
	if v.Patch == 0 && !v.IsZero() {
		v.Patch = newestPatch
	}
	return v.AtLeast(r.Since) && (r.Until.IsZero() || v.Below(r.Until))
}

// String is "" for every version, "from 4.0", "before 4.0" or both.
func (r Range) String() string {
	switch {
	case r.Since.IsZero() && r.Until.IsZero():
		return ""
	case r.Until.IsZero():
		return "from " + r.Since.String()
	case r.Since.IsZero():
		return "before " + r.Until.String()
	}
	return "from " + r.Since.String() + ", before " + r.Until.String()
}

// Span names some of a list of versions in words, both oldest first: "3.10 to 3.13
// and 4.3".
func Span(some, of []Version) string {
	var words strings.Builder
	for i := 0; i < len(some); {
		start, n := slices.Index(of, some[i]), 1
		for start >= 0 && i+n < len(some) && start+n < len(of) && of[start+n] == some[i+n] {
			n++
		}
		switch {
		case i == 0:
		case i+n == len(some):
			words.WriteString(" and ")
		default:
			words.WriteString(", ")
		}
		words.WriteString(some[i].String())
		if n > 1 {
			words.WriteString(" to " + some[i+n-1].String())
		}
		i += n
	}
	return words.String()
}
