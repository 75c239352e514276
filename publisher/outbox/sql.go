package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/sqldialect"
)

// Dialect is the kind of a database.
type Dialect = sqldialect.Dialect

// The dialects.
const (
	SQLite     = sqldialect.SQLite
	PostgreSQL = sqldialect.PostgreSQL
)

// SQL is a Store in two tables of a database: the events, and the lease in one more with
// _lease at the end of its name.
type SQL struct {
	db      *sql.DB
	dialect Dialect
	table   string
}

// NewSQL makes a Store of a table, such as "outbox". It does not make the table: see
// Schema.
func NewSQL(db *sql.DB, dialect Dialect, table string) (*SQL, error) {
	if !dialect.Known() {
		return nil, fmt.Errorf("outbox: dialect %q: it is %s or %s", dialect, SQLite, PostgreSQL)
	}
	if err := sqldialect.Table(table); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return &SQL{db, dialect, table}, nil
}

// Schema is what makes the tables where they are not there.
func (s *SQL) Schema() []string {
	index := strings.ReplaceAll(s.table, ".", "_")
	return []string{
		`CREATE TABLE IF NOT EXISTS ` + s.table + ` (
	sequence ` + s.dialect.Serial() + `,
	id TEXT NOT NULL,
	exchange TEXT NOT NULL,
	routing_key TEXT NOT NULL,
	content_type TEXT NOT NULL,
	headers TEXT NOT NULL,
	body ` + s.dialect.Bytes() + ` NOT NULL,
	added_at BIGINT NOT NULL,
	sent_at BIGINT,
	attempts BIGINT NOT NULL DEFAULT 0,
	parked_at BIGINT,
	last_error TEXT
)`,
		`CREATE INDEX IF NOT EXISTS ` + index + `_pending ON ` + s.table + ` (sequence) WHERE sent_at IS NULL AND parked_at IS NULL`,
		`CREATE TABLE IF NOT EXISTS ` + s.table + `_lease (one INTEGER PRIMARY KEY, holder TEXT NOT NULL, until BIGINT NOT NULL)`,
	}
}

// Execer is *sql.Tx, or *sql.DB where there is no transaction to belong to.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Add stores an event in the caller's transaction.
func (s *SQL) Add(ctx context.Context, tx Execer, e Event) error {
	if e.ID == "" {
		return errors.New("outbox: an event needs an ID")
	}
	headers, err := json.Marshal(e.Headers)
	if err != nil {
		return fmt.Errorf("outbox: headers of event %q: %w", e.ID, err)
	}
	body := e.Body
	if body == nil {
		body = []byte{}
	}
	_, err = tx.ExecContext(ctx, s.dialect.Rebind(`INSERT INTO `+s.table+
		` (id, exchange, routing_key, content_type, headers, body, added_at) VALUES (?, ?, ?, ?, ?, ?, ?)`),
		e.ID, e.Exchange, e.RoutingKey, e.ContentType, string(headers), body, time.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("outbox: add event %q: %w", e.ID, err)
	}
	return nil
}

// Pending implements Store.
func (s *SQL) Pending(ctx context.Context, n int) (rows []Row, err error) {
	found, err := s.db.QueryContext(ctx, s.dialect.Rebind(`SELECT sequence, id, exchange, routing_key, content_type, headers, body, attempts FROM `+
		s.table+` WHERE sent_at IS NULL AND parked_at IS NULL ORDER BY sequence LIMIT ?`), n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		var r Row
		var headers string
		if err := found.Scan(&r.Sequence, &r.ID, &r.Exchange, &r.RoutingKey, &r.ContentType, &headers, &r.Body, &r.Attempts); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(headers), &r.Headers); err != nil {
			return nil, fmt.Errorf("headers of event %d: %w", r.Sequence, err)
		}
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// MarkSent implements Store.
func (s *SQL) MarkSent(ctx context.Context, sequences []int64) error {
	const most = 500 // databases bound the parameters of a statement
	now := time.Now().UnixMilli()
	for len(sequences) > 0 {
		part := sequences[:min(most, len(sequences))]
		sequences = sequences[len(part):]
		args := []any{now}
		for _, q := range part {
			args = append(args, q)
		}
		marks := strings.TrimSuffix(strings.Repeat("?, ", len(part)), ", ")
		if _, err := s.db.ExecContext(ctx, s.dialect.Rebind(`UPDATE `+s.table+` SET sent_at = ? WHERE sequence IN (`+marks+`)`), args...); err != nil {
			return err
		}
	}
	return nil
}

// MarkFailed implements Store.
func (s *SQL) MarkFailed(ctx context.Context, sequence int64, reason string, park bool) error {
	var parked any
	if park {
		parked = time.Now().UnixMilli()
	}
	_, err := s.db.ExecContext(ctx, s.dialect.Rebind(`UPDATE `+s.table+` SET attempts = attempts + 1, last_error = ?, parked_at = ? WHERE sequence = ?`), reason, parked, sequence)
	return err
}

// Unpark makes parked events pending again, and returns how many.
func (s *SQL) Unpark(ctx context.Context) (int64, error) {
	r, err := s.db.ExecContext(ctx, `UPDATE `+s.table+` SET parked_at = NULL, attempts = 0 WHERE parked_at IS NOT NULL`)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Prune deletes events that were sent before a time, and returns how many.
func (s *SQL) Prune(ctx context.Context, before time.Time) (int64, error) {
	r, err := s.db.ExecContext(ctx, s.dialect.Rebind(`DELETE FROM `+s.table+` WHERE sent_at < ?`), before.UnixMilli())
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Lease implements Store. It goes by the clocks of the machines that ask, which should
// not differ by much of a lease's length.
func (s *SQL) Lease(ctx context.Context, holder string, length time.Duration) (bool, error) {
	now := time.Now()
	r, err := s.db.ExecContext(ctx, s.dialect.Rebind(`INSERT INTO `+s.table+`_lease (one, holder, until) VALUES (1, ?, ?)
		ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE `+s.table+`_lease.holder = excluded.holder OR `+s.table+`_lease.until < ?`),
		holder, now.Add(length).UnixMilli(), now.UnixMilli())
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}
