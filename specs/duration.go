package specs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// noUnit is what is wrong with a bare number where a duration stands.
type noUnit struct{ text string }

func (e noUnit) Error() string {
	return fmt.Sprintf("must have a unit, such as %ss or %sms", e.text, e.text)
}

var durationUnits = []struct {
	name   string
	length time.Duration
}{
	{"ms", time.Millisecond},
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", 24 * time.Hour},
}

// ParseDuration reads a duration of the spec language: whole numbers with the
// units ms, s, m, h and d, one or several in falling order such as 1h30m.
func ParseDuration(text string) (time.Duration, error) {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		return 0, noUnit{text}
	}
	bad := fmt.Errorf("must be a duration such as 300ms, 30s, 5m, 7d or 1h30m, not %q", shorten(text))
	var total time.Duration
	last := len(durationUnits)
	for rest := text; rest != "" || text == ""; {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		rest = rest[len(digits):]
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))]
		rest = rest[len(name):]
		unit := -1
		for i, u := range durationUnits {
			if u.name == name {
				unit = i
			}
		}
		if digits == "" || unit < 0 || unit >= last {
			return 0, bad
		}
		last = unit
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n > int64(math.MaxInt64-total)/int64(durationUnits[unit].length) {
			return 0, fmt.Errorf("%q is longer than can be counted", shorten(text))
		}
		total += time.Duration(n) * durationUnits[unit].length
	}
	return total, nil
}

// FormatDuration writes a duration in its canonical spelling, the one that is
// used in names: the largest unit of d, h, m, s and ms that divides it, so that
// 60s and 1m are both 1m.
func FormatDuration(d time.Duration) string {
	for i := len(durationUnits) - 1; i >= 0; i-- {
		if u := durationUnits[i]; d != 0 && d%u.length == 0 {
			return strconv.FormatInt(int64(d/u.length), 10) + u.name
		}
	}
	if d == 0 {
		return "0s"
	}
	return d.String()
}

var sizeUnits = map[string]int64{
	"": 1, "B": 1,
	"kB": 1000, "KB": 1000, "MB": 1000_000, "GB": 1000_000_000, "TB": 1000_000_000_000,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// ParseSize reads a number of bytes: 512KiB (1024) or 10MB (1000), or a bare
// number of bytes.
func ParseSize(text string) (int64, error) {
	unit := strings.TrimLeft(text, "0123456789")
	digits := text[:len(text)-len(unit)]
	factor, ok := sizeUnits[strings.TrimPrefix(unit, " ")]
	if !ok || digits == "" {
		return 0, fmt.Errorf("must be a size such as 512KiB, 10MB or 2GB, not %q", shorten(text))
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is larger than can be counted", shorten(text))
	}
	return n * factor, nil
}
