package specs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"300ms": 300 * time.Millisecond, "30s": 30 * time.Second, "5m": 5 * time.Minute, "2h": 2 * time.Hour, "7d": 168 * time.Hour,
		"1h30m": 90 * time.Minute, "1d2h3m4s5ms": 26*time.Hour + 3*time.Minute + 4*time.Second + 5*time.Millisecond, "0s": 0, "90s": 90 * time.Second,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "30", "s", "1", "-1s", "1.5s", "1M", "1D", "1w", "30 s", "30s ", "1m1h", "1s1s", "1ms1s", "99999999999999999999s", "200000d", "1us", "٣s", "1h 30m"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		60 * time.Second: "1m", 90 * time.Second: "90s", 24 * time.Hour: "1d", 36 * time.Hour: "36h", 1500 * time.Millisecond: "1500ms", 0: "0s",
		time.Microsecond: "1µs",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "ms")) * time.Millisecond
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %q and read as %v, %v", d, FormatDuration(d), got, err)
		}
	})
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "17": 17, "17B": 17, "512KiB": 524288, "10MB": 10_000_000, "2GB": 2_000_000_000, "1 GiB": 1 << 30, "1kB": 1000, "3TiB": 3 << 40,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MB", "-1MB", "1.5GB", "1mb", "1 000", "9999999999TB", "99999999999999999999"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

func TestConstraint(t *testing.T) {
	for _, c := range []struct{ text, in, out, series string }{
		{">=3.10", "3.10 3.10.8 4.3.6 5.0", "3.9.29", "3.10 3.11 3.12 3.13 4.0 4.1 4.2 4.3"},
		{">=3.10 <4.3", "3.10 4.2.9", "4.3 4.3.6", "3.10 3.11 3.12 3.13 4.0 4.1 4.2"},
		{">=3.10, <4.3", "3.10 4.2.9", "4.3", "3.10 3.11 3.12 3.13 4.0 4.1 4.2"},
		{">= 4.0,<4.1", "4.0.5", "3.13 4.1", "4.0"},
		{">=4.0<4.1", "4.0.5", "3.13 4.1", "4.0"},
		{"4.0", "4.0 4.0.5", "3.13.7 4.1", "4.0"},
		{"=4.0.5", "4.0.5", "4.0.4 4.0.6", "4.0"},
		{"==4.0", "4.0.5", "4.1", "4.0"},
		{"4", "4.0 4.3.6", "3.13 5.0", "4.0 4.1 4.2 4.3"},
		{">4.0", "4.1", "4.0.5", "4.1 4.2 4.3"},
		{">4.0.5", "4.0.6", "4.0.5", "4.0 4.1 4.2 4.3"},
		{"<=4.0", "4.0.9", "4.1", "3.10 3.11 3.12 3.13 4.0"},
		{"<=3.10.8", "3.10.8", "3.10.9", "3.10"},
		{">3", "4.0", "3.13", "4.0 4.1 4.2 4.3"},
		{">=5.0", "5.0", "4.3", ""},
		{"<4.3 >4.3", "", "4.2 4.3 4.4", ""},
	} {
		got, err := ParseConstraint(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		for _, v := range strings.Fields(c.in) {
			if !got.Allows(version(t, v)) {
				t.Errorf("%q does not allow %s", c.text, v)
			}
		}
		for _, v := range strings.Fields(c.out) {
			if got.Allows(version(t, v)) {
				t.Errorf("%q allows %s", c.text, v)
			}
		}
		if series := fmt.Sprint(Requires{RabbitMQ: got}.Versions()); series != "["+c.series+"]" {
			t.Errorf("%q leaves %s, want %s", c.text, series, c.series)
		}
	}
	for _, text := range []string{"", " ", ">=", "4.x", "~>4.0", "!=4.0", "=>4.0", "latest", ">=4.0 ||", "1.2.3.4.5", ">=-1"} {
		if got, err := ParseConstraint(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	if !(Constraint{}).Allows(catalog.V(3, 10)) || len((Requires{}).Versions()) != len(catalog.Releases) {
		t.Error("nothing required must allow every version")
	}
}

func version(t *testing.T, text string) catalog.Version {
	t.Helper()
	v, err := catalog.ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVersionsOfTheSpec(t *testing.T) {
	spec, list := load("version: 1\nrequires: {rabbitmq: \">=4.0\"}\n---\nversion: 1\nvhost: b\nrequires: {rabbitmq: \"<4.2\"}\n---\nversion: 1\nvhost: c\n")
	if got := fmt.Sprint(spec.Versions()); got != "[4.0 4.1]" || len(list) > 0 {
		t.Errorf("got %s\n%s", got, texts(list))
	}
}

func TestSuggest(t *testing.T) {
	names := []string{"durable", "message_ttl", "max_length", "max_length_bytes", "type", "delays", "delay"}
	for wrong, want := range map[string]string{
		"durabel": "durable", "message-ttl": "message_ttl", "MESSAGE_TTL": "message_ttl", "maxlength": "max_length", "max_lenght": "max_length", "tpye": "type",
		"delaysx": "delays", "xyz": "", "": "", "nothing_like_it": "", strings.Repeat("durable", 20): "",
	} {
		if got := suggest(wrong, names); got != want {
			t.Errorf("%q: suggested %q, want %q", wrong, got, want)
		}
	}
}
