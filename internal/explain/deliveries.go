package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Deliveries say how often a message is handed out.
type Deliveries struct {
	// Most is the number of deliveries, the first included, after which a message is
	// given up; 0: there is no end.
	Most int64 `json:"most"`
	// CountedBy is broker, consumer or nobody.
	CountedBy string `json:"counted_by"`
	// Text says it in sentences.
	Text []string `json:"text"`
}

// deliveries says how often a message of a queue is tried.
func (e *Explainer) deliveries(q *topology.Queue, settings map[string]policy.Value) Deliveries {
	d := Deliveries{CountedBy: "nobody", Text: []string{}}
	say := func(format string, args ...any) { d.Text = append(d.Text, fmt.Sprintf(format, args...)) }
	if q.Type == topology.Stream {
		say("A stream keeps its messages; every consumer reads from the offset that it asks for, as often as it likes.")
		return d
	}
	limit, limited := number(settings, "delivery-limit")
	if limited = limited && limit >= 0 && q.Type == topology.Quorum; limited {
		d.Most, d.CountedBy = limit+1, "broker"
		say("A message is delivered at most %s: with delivery limit %d it is given up when it is returned after delivery %d (reason delivery_limit).", times(limit+1), limit, limit+1)
		if e.version.AtLeast(catalog.V(4, 3)) {
			say("basic.reject with requeue and a closed channel or connection count as returns; basic.nack with requeue does not from 4.3 on.")
		} else {
			say("Every return counts: basic.reject and basic.nack with requeue, a closed channel or connection.")
		}
	}
	var retry *topology.Retry
	if q.Intent != nil {
		retry = q.Intent.Retry
	}
	switch {
	case limited:
	case retry != nil && retry.MaxAttempts > 0:
		d.Most, d.CountedBy = retry.MaxAttempts, "consumer"
		say("The consumer counts, and gives a message up at delivery %d; the broker sets no limit.", retry.MaxAttempts)
	case q.Type == topology.Quorum:
		say("There is no delivery limit: a message that is returned is delivered again without end.")
	default:
		say("Classic queues do not count: a message that is returned is delivered again at once, without end.")
	}
	if retry != nil && len(retry.Delays) > 0 {
		say("%s", retryText(retry))
	}
	if kind, _ := settings["delayed-retry-type"].Value.(string); kind != "" && kind != "disabled" && q.Type == topology.Quorum {
		shortest, _ := number(settings, "delayed-retry-min")
		longest, ok := number(settings, "delayed-retry-max")
		switch {
		case shortest <= 0:
			say("Delayed retry has no shortest wait: nothing is delayed.")
		case ok && longest > shortest:
			say("A message that comes back (%s) waits %s times the number of failures, at most %s.", kind, duration(shortest), duration(longest))
		default:
			say("A message that comes back (%s) waits %s before the next delivery.", kind, duration(shortest))
		}
	}
	if q.Intent != nil && q.Intent.DeadLetter != nil {
		if target := deadLetterText(q.Intent.DeadLetter); target != "" {
			say("Given up, it goes to %s.", target)
		}
	}
	return d
}

// times is "5 times" and "once".
func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func retryText(r *topology.Retry) string {
	delays := make([]string, len(r.Delays))
	for i, d := range r.Delays {
		delays[i] = duration(int64(d / time.Millisecond))
	}
	list := strings.Join(delays, ", ")
	if len(delays) > 1 {
		list += " (the last repeats)"
	}
	switch r.Mechanism {
	case topology.MechanismWaitQueue, topology.MechanismPerMessage:
		return fmt.Sprintf("Retries wait %s: the consumer publishes a copy to %s, which leads back.", list, quoted(r.WaitQueues))
	case topology.MechanismRejectCycle:
		return fmt.Sprintf("Retries wait %s: the consumer rejects the message without requeue into %s, which leads back.", list, quoted(r.WaitQueues))
	case topology.MechanismDelayedRetry:
		return fmt.Sprintf("Retries wait %s: the broker delays a rejected message itself (delayed retry).", list)
	case topology.MechanismDelayedExchange:
		return fmt.Sprintf("Retries wait %s: the consumer publishes a copy to the delayed exchange %q.", list, r.Exchange)
	}
	return fmt.Sprintf("Retries wait %s.", list)
}

func deadLetterText(d *topology.DeadLetter) string {
	switch {
	case d.Categories != nil:
		return fmt.Sprintf("a queue by its category (header %q), else %q", d.Categories.Header, d.Categories.Otherwise.Queue)
	case d.Queue != "":
		return fmt.Sprintf("queue %q", d.Queue)
	case d.Exchange != "":
		return exchangeText(d.Exchange)
	}
	return ""
}

// quoted lists names: "a", "b".
func quoted(names []string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(all, ", ")
}
