// Package sqldialect is what differs between the databases that the outbox and the
// deduplication of messages work on.
package sqldialect

import (
	"fmt"
	"strconv"
	"strings"
)

// Dialect is a kind of database.
type Dialect string

// The dialects.
const (
	SQLite     Dialect = "sqlite"
	PostgreSQL Dialect = "postgresql"
)

// Known reports whether the dialect is one of these.
func (d Dialect) Known() bool { return d == SQLite || d == PostgreSQL }

// Rebind replaces each ? by the dialect's own placeholder. The query has no other ?.
func (d Dialect) Rebind(query string) string {
	if d != PostgreSQL {
		return query
	}
	var b strings.Builder
	n := 0
	for _, part := range strings.SplitAfter(query, "?") {
		if rest, ok := strings.CutSuffix(part, "?"); ok {
			n++
			b.WriteString(rest + "$" + strconv.Itoa(n))
		} else {
			b.WriteString(part)
		}
	}
	return b.String()
}

// Serial is the type of a key that numbers rows in the order in which they are inserted.
func (d Dialect) Serial() string {
	if d == PostgreSQL {
		return "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
	}
	return "INTEGER PRIMARY KEY AUTOINCREMENT"
}

// Bytes is the type of a body.
func (d Dialect) Bytes() string {
	if d == PostgreSQL {
		return "BYTEA"
	}
	return "BLOB"
}

// Table checks a table's name, which cannot be a parameter of a query: letters, digits,
// underscores and one dot after a schema.
func Table(name string) error {
	schema, table, dotted := strings.Cut(name, ".")
	if !word(schema) || dotted && !word(table) {
		return fmt.Errorf("table %q: a name has letters, digits and underscores, and begins with no digit", name)
	}
	return nil
}

func word(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 63
}
