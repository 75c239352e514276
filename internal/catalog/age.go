package catalog

import (
	"fmt"
	"strconv"
	"time"
)

var ageUnits = map[byte]time.Duration{
	'Y': 365 * 24 * time.Hour,
	'M': 30 * 24 * time.Hour,
	'D': 24 * time.Hour,
	'h': time.Hour,
	'm': time.Minute,
	's': time.Second,
}

// ParseAge reads RabbitMQ's x-max-age: digits and one of Y M D h m s, where M is
// a month of 30 days and m a minute (4.3 compares ages by this length; older
// versions compare the text).
func ParseAge(s string) (time.Duration, error) {
	bad := fmt.Errorf("must be digits and one of Y M D h m s, such as 7D or 12h, not %q", s)
	if len(s) < 2 {
		return 0, bad
	}
	unit, ok := ageUnits[s[len(s)-1]]
	if !ok {
		return 0, bad
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 31)
	if err != nil || n == 0 {
		return 0, bad
	}
	if n > uint64(1<<63-1)/uint64(unit) {
		return 0, fmt.Errorf("%q is longer than can be counted", s)
	}
	return time.Duration(n) * unit, nil
}

// FormatAge writes a duration as RabbitMQ's text with the largest unit of
// D h m s that divides it; durations under a second have no form.
func FormatAge(d time.Duration) (string, error) {
	if d < time.Second || d%time.Second != 0 {
		return "", fmt.Errorf("an age is counted in whole seconds, %s is not", d)
	}
	for _, u := range []byte{'D', 'h', 'm', 's'} {
		if d%ageUnits[u] == 0 {
			return strconv.FormatInt(int64(d/ageUnits[u]), 10) + string(u), nil
		}
	}
	return "", fmt.Errorf("%s has no form as an age", d)
}
