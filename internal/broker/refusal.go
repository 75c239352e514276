package broker

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Inequivalent is what the broker says when a declaration differs from the
// object that is there. Values are the broker's texts; "absent" stands for none.
type Inequivalent struct {
	Argument   string // "x-message-ttl", "durable", "type"
	Want, Have string
}

// The texts were the same on 3.10.8, 4.0.5 and 4.3.6. A reply text over AMQP is
// cut at 255 bytes, so the tail may be missing: then nothing is parsed.
var inequivalent = regexp.MustCompile(
	`(?s)inequivalent arg '([^']+)' for (?:queue|exchange) '.*': received (none|the value '.*' of type '\w+'|'.*') but current is (none|the value '.*' of type '\w+'|'.*')`)

// Inequivalent parses a refused redeclaration. The broker names only the first
// of several differences.
func (e *Error) Inequivalent() (Inequivalent, bool) {
	m := inequivalent.FindStringSubmatch(e.Reason)
	if m == nil {
		return Inequivalent{}, false
	}
	return Inequivalent{Argument: m[1], Want: brokerValue(m[2]), Have: brokerValue(m[3])}, true
}

func brokerValue(s string) string {
	if s == "none" {
		return "absent"
	}
	s = strings.TrimPrefix(s, "the value ")
	if i := strings.LastIndex(s, "' of type '"); i >= 0 {
		s = s[:i+1]
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "'"), "'")
}

const (
	hintLogin = "the login failed: wrong user name, password or token"
	hintVHost = "the user has no permission in this virtual host"
)

func (e *Error) isAuth() bool {
	if e.Via != ViaAMQP {
		return e.Status == 401 || e.Status == 403
	}
	switch e.Status {
	case 403:
		return e.Hint == hintLogin || strings.Contains(e.Reason, "refused for user") || strings.Contains(e.Reason, "Login was refused")
	case 530:
		return strings.Contains(e.Reason, "refused for user")
	}
	return false
}

// hint finds out which right is missing (seen on 3.10.8, 4.0.5 and 4.3.6).
func (e *Error) hint() {
	if e.Hint != "" || e.class != refused || !e.isAuth() {
		return
	}
	r := e.Reason
	switch {
	case strings.Contains(r, "Not management user"):
		e.Hint = `the user needs the tag "management" or a higher one`
	case strings.Contains(r, "Not administrator user"):
		e.Hint = `the user needs the tag "administrator"`
	case strings.Contains(r, "Not monitor user"):
		e.Hint = `the user needs the tag "monitoring" or "administrator"`
	case strings.Contains(r, "User not authorised to access virtual host"):
		e.Hint = hintVHost
	case strings.Contains(r, "access to vhost"):
		e.Hint = hintVHost
	case strings.Contains(r, "User not authorised to access object"):
		e.Hint = `the user needs the tag "policymaker" or "administrator"`
	case strings.Contains(r, "refused for user"):
		e.Hint = missingPermission(r)
	case strings.Contains(r, "Access refused"):
		e.Hint = "the user lacks the configure, write or read permission for this, or RabbitMQ reserves the name"
	}
}

// missingPermission reads which permission an AMQP refusal is about; 3.10.8 does
// not say it: "access to queue 'q' in vhost 'v' refused for user 'u'".
func missingPermission(reason string) string {
	for _, p := range []string{"configure", "write", "read"} {
		if strings.Contains(reason, p+" access to") {
			return "the user lacks the " + p + " permission for this name"
		}
	}
	return "the user lacks a configure, write or read permission for this name"
}

// answer is the body of a refusal by the management API.
type answer struct {
	Error  json.RawMessage `json:"error"`
	Reason json.RawMessage `json:"reason"`
}

// refusal reads the body of an answer with an error status. ok is false when it
// is not the management API's.
func refusal(body []byte) (code, reason string, ok bool) {
	var a answer
	if json.Unmarshal(body, &a) != nil || a.Error == nil && a.Reason == nil {
		return "", "", false
	}
	return words(a.Error), words(a.Reason), true
}

// words is a JSON string's text or, for the terms that the API sometimes
// answers, their JSON form.
func words(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// unescape undoes the HTML escaping of 3.10.8 and 4.0.5 in answers about
// policies: &lt;&lt;"x"&gt;&gt;.
func unescape(path, reason string) string {
	if strings.Contains(path, "/policies/") {
		return html.UnescapeString(reason)
	}
	return reason
}

var secretInURI = regexp.MustCompile(`://[^/@\s"']*@`)

// redact removes user names and passwords of URIs: the broker repeats values of
// parameters in some answers.
func redact(s string) string { return secretInURI.ReplaceAllString(s, "://***@") }

// checkAddressable refuses names that the management API cannot address (empty,
// "." and "..", which it normalises away: 405) or that only look accepted: more
// than 255 bytes are taken for exchanges over HTTP though AMQP cannot address
// them, and line breaks are removed.
func checkAddressable(via Via, what, name string) error {
	if len(name) > 255 {
		return local("the %s is %d bytes long; RabbitMQ's limit is 255", what, len(name))
	}
	return checkPath(via, what, name)
}

// checkPath is checkAddressable for names that only the management API knows:
// those of policies and parameters, of which the broker takes any length.
func checkPath(via Via, what, name string) error {
	switch {
	case strings.ContainsAny(name, "\r\n"):
		return local("the %s contains a line break, which RabbitMQ would remove", what)
	case via == ViaHTTP && name == "":
		return local("the %s is empty, which the management API cannot address", what)
	case via == ViaHTTP && dots(name):
		return local("the %s is %q, which the management API cannot address; use AMQP", what, name)
	}
	return nil
}

// dots tells the names that mean a folder in a path.
func dots(name string) bool { return name == "." || name == ".." }

func vhostSentence(format, vhost string) string {
	return fmt.Sprintf(format, topology.Key{Kind: topology.KindVirtualHost, VirtualHost: vhost})
}
