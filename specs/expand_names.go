package specs

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxPattern is the longest pattern of a generated policy in bytes: 4.3 refuses
// more than 1,024.
const maxPattern = 1000

// maxName is the longest name of a queue in bytes.
const maxName = 255

// policyName is the name of the policy that is generated for a queue.
func policyName(queue string) string { return "rabbitctl:" + queue }

// queuePattern is the regular expression that matches the queue's name alone.
// Brokers match bytes and without options, so that only the metacharacters need
// a backslash. $ also matches before a newline at the end of a name, but brokers
// strip newlines from queue names.
func queuePattern(queue string) string { return "^" + regexp.QuoteMeta(queue) + "$" }

// waitQueueName is the name of the wait queue for the n-th delay, from 1, of
// several or one.
func waitQueueName(queue string, w WaitQueue, d time.Duration, n int, several bool) string {
	switch {
	case w.Names != "":
		return strings.NewReplacer(
			"{queue}", queue, "{name}", queue, "{delay}", FormatDuration(d), "{n}", strconv.Itoa(n),
		).Replace(w.Names)
	case several:
		return queue + ".retry." + FormatDuration(d)
	case w.Name != "":
		return w.Name
	}
	return queue + ".retry"
}
