package specs

import "github.com/rabbitctl/rabbitctl/internal/text"

// otherNames are what people call keys whose spelling is far from it.
var otherNames = map[string]string{
	"args": "arguments", "attempts": "max_attempts", "max_retries": "max_attempts", "key": "routing_key", "keys": "routing_keys",
	"backoff": "delays", "dlq": "dead_letter", "dlx": "dead_letter", "ttl": "message_ttl", "x-dead-letter-exchange": "dead_letter",
	"maxlen": "max_length", "limit": "delivery_limit",
}

// suggest returns the name that a misspelt one most likely means, or "".
func suggest(wrong string, names []string) string { return text.Nearest(wrong, names) }
