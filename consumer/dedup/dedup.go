// Package dedup lets a handler have its effect once for each message, although messages
// come more than once: the message's key is recorded in the transaction of the effect, and
// a message whose key is there already is acknowledged without calling the handler.
package dedup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/sqldialect"
)

// Dialect is the kind of a database.
type Dialect = sqldialect.Dialect

// The dialects.
const (
	SQLite     = sqldialect.SQLite
	PostgreSQL = sqldialect.PostgreSQL
)

// SQL records keys in a table.
type SQL struct {
	db      *sql.DB
	dialect Dialect
	table   string
	// Duplicates counts the messages that were acknowledged without an effect.
	Duplicates atomic.Int64
}

// NewSQL uses a table, such as "processed_messages". It does not make the table: see
// Schema.
func NewSQL(db *sql.DB, dialect Dialect, table string) (*SQL, error) {
	if !dialect.Known() {
		return nil, fmt.Errorf("dedup: dialect %q: it is %s or %s", dialect, SQLite, PostgreSQL)
	}
	if err := sqldialect.Table(table); err != nil {
		return nil, fmt.Errorf("dedup: %w", err)
	}
	return &SQL{db: db, dialect: dialect, table: table}, nil
}

// Schema is what makes the table where it is not there.
func (s *SQL) Schema() []string {
	return []string{`CREATE TABLE IF NOT EXISTS ` + s.table + ` (scope TEXT NOT NULL, message_key TEXT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (scope, message_key))`}
}

// Begin records a key in the caller's transaction and reports whether it is new. Of two
// transactions with one key the second waits for the first, or fails.
func (s *SQL) Begin(ctx context.Context, tx *sql.Tx, scope, key string) (bool, error) {
	r, err := tx.ExecContext(ctx, s.dialect.Rebind(`INSERT INTO `+s.table+` (scope, message_key, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`), scope, key, time.Now().UnixMilli())
	if err != nil {
		return false, fmt.Errorf("dedup: record key %q: %w", key, err)
	}
	n, err := r.RowsAffected()
	return n == 1, err
}

// Prune forgets keys recorded before a time. A message that comes later than that has its
// effect again: keep keys for longer than messages can wait, dead-letter queues included.
func (s *SQL) Prune(ctx context.Context, before time.Time) (int64, error) {
	r, err := s.db.ExecContext(ctx, s.dialect.Rebind(`DELETE FROM `+s.table+` WHERE at < ?`), before.UnixMilli())
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Options change how Handler works.
type Options struct {
	// Scope keeps the keys of one consumer apart from those of others that share the
	// table; usually the name of the queue.
	Scope string
	// Key is what makes two messages the same; nil: the property message_id.
	Key func(*consumer.Delivery) string
	// WithoutKey is what becomes of a message without a key; nil: consumer.Drop, since
	// nobody can tell whether it was handled.
	WithoutKey func(*consumer.Delivery) consumer.Outcome
	// HandleWithoutKey calls the handler for messages without a key each time they come.
	HandleWithoutKey bool
}

var errNoKey = errors.New("dedup: the message has no key (message_id)")

// Handler calls a function in a transaction that also records the message's key. On
// consumer.Ack the transaction is committed, on every other outcome rolled back. A
// transaction that fails is an error of the handler (consumer.OnError).
func (s *SQL) Handler(o Options, handle func(ctx context.Context, tx *sql.Tx, d *consumer.Delivery) consumer.Outcome) consumer.Handler {
	failing := func(err error) consumer.Handler {
		return consumer.Func(func(context.Context, *consumer.Delivery) error { return err })
	}
	return func(ctx context.Context, d *consumer.Delivery) (outcome consumer.Outcome) {
		key := d.MessageID
		if o.Key != nil {
			key = o.Key(d)
		}
		if key == "" && !o.HandleWithoutKey {
			if o.WithoutKey == nil {
				return consumer.Drop(errNoKey)
			}
			return o.WithoutKey(d)
		}
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return failing(fmt.Errorf("dedup: begin: %w", err))(ctx, d)
		}
		defer func() { _ = tx.Rollback() }() // nothing after a commit
		if key != "" {
			fresh, err := s.Begin(ctx, tx, o.Scope, key)
			if err != nil {
				return failing(err)(ctx, d)
			}
			if !fresh {
				s.Duplicates.Add(1)
				return consumer.Ack()
			}
		}
		outcome = handle(ctx, tx, d)
		if !outcome.IsAck() {
			return outcome
		}
		if err := tx.Commit(); err != nil {
			return failing(fmt.Errorf("dedup: commit: %w", err))(ctx, d)
		}
		return outcome
	}
}
