package catalog

import (
	"testing"
	"time"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"4.3": {4, 3, 0}, "4.3.6": {4, 3, 6}, "3.10.8": {3, 10, 8}, "4": {4, 0, 0},
		"4.3.0-beta.1": {4, 3, 0}, "4.0.5+1.g12": {4, 0, 5}, " 4.1 ": {4, 1, 0},
	} {
		got, err := ParseVersion(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "four", "4.x", "-1", "4.-3", "0.1", "4.3.6.1.2", "99999.1"} {
		if v, err := ParseVersion(text); err == nil {
			t.Errorf("%q: %v", text, v)
		}
	}
}

func TestRange(t *testing.T) {
	tests := []struct {
		r    Range
		v    Version
		want bool
	}{
		{Range{}, V(3, 10), true},
		{Range{}, Version{}, true},
		{since40, Version{}, false},
		{since40, V(4, 0), true},
		{since40, Version{3, 13, 7}, false},
		{until40, V(3, 13), true},
		{until40, V(4, 0), false},
		// A series stands for its newest release.
		{since3127, V(3, 12), true},
		{since3127, Version{3, 12, 6}, false},
		{since3127, Version{3, 12, 7}, true},
		{until432, V(4, 3), false},
		{until432, Version{4, 3, 1}, true},
	}
	for _, tt := range tests {
		if got := tt.r.Has(tt.v); got != tt.want {
			t.Errorf("%+v has %s: %v", tt.r, tt.v, got)
		}
	}
}

func TestRangeText(t *testing.T) {
	for text, r := range map[string]Range{
		"": {}, "from 4.0": since40, "before 4.0": until40, "from 3.12, before 4.3": {V(3, 12), V(4, 3)}, "from 3.12.7": since3127,
	} {
		if got := r.String(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

func TestParseAge(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1Y": 365 * day, "1M": 30 * day, "7D": 7 * day, "12h": 12 * time.Hour, "5m": 5 * time.Minute, "30s": 30 * time.Second,
	} {
		got, err := ParseAge(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	// What brokers refuse, some of them by closing the connection.
	for _, text := range []string{"", "0s", "1W", "10", "1.5h", "-1h", "+1h", "bogus", "h", "1 h", "1d", "2147483647Y"} {
		if d, err := ParseAge(text); err == nil {
			t.Errorf("%q: %v", text, d)
		}
	}
}

func TestFormatAge(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"7D": 168 * time.Hour, "36h": 36 * time.Hour, "90m": 90 * time.Minute, "1s": time.Second,
	} {
		got, err := FormatAge(d)
		if err != nil || got != want {
			t.Errorf("%v: %q, %v", d, got, err)
			continue
		}
		if back, err := ParseAge(got); err != nil || back != d {
			t.Errorf("%v comes back as %v, %v", d, back, err)
		}
	}
	for _, d := range []time.Duration{0, -time.Hour, 300 * time.Millisecond, 1500 * time.Millisecond} {
		if text, err := FormatAge(d); err == nil {
			t.Errorf("%v: %q", d, text)
		}
	}
}

func TestSpan(t *testing.T) {
	tests := []struct {
		some []Version
		want string
	}{
		{[]Version{V(4, 3)}, "4.3"},
		{[]Version{V(3, 10), V(3, 11)}, "3.10 to 3.11"},
		{[]Version{V(3, 10), V(3, 11), V(3, 13), V(4, 2), V(4, 3)}, "3.10 to 3.11, 3.13 and 4.2 to 4.3"},
	}
	for _, test := range tests {
		if got := Span(test.some, Releases); got != test.want {
			t.Errorf("%v: %q, want %q", test.some, got, test.want)
		}
	}
}
