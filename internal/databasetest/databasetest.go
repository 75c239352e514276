// Package databasetest gives tests real databases: SQLite in a file, and PostgreSQL where
// RABBITCTL_TEST_POSTGRES names one, which `make test` starts (dev/postgres).
package databasetest

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // drivers
	_ "modernc.org/sqlite"

	"github.com/rabbitctl/rabbitctl/internal/sqldialect"
)

var schemas atomic.Int64

// Each runs a test on each kind of database, empty.
func Each(t *testing.T, run func(t *testing.T, db *sql.DB, dialect sqldialect.Dialect)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		run(t, db, sqldialect.SQLite)
	})
	t.Run("postgresql", func(t *testing.T) {
		t.Parallel()
		url := os.Getenv("RABBITCTL_TEST_POSTGRES")
		if url == "" {
			const what = "RABBITCTL_TEST_POSTGRES names no PostgreSQL (dev/postgres starts one)"
			if os.Getenv("CI") != "" || os.Getenv("RABBITCTL_REQUIRE_BROKERS") != "" {
				t.Fatal(what)
			}
			t.Skip(what)
		}
		admin, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		schema := fmt.Sprintf("t%d_%d", os.Getpid(), schemas.Add(1))
		if _, err := admin.Exec("CREATE SCHEMA " + schema); err != nil {
			t.Fatal(err)
		}
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		db, err := sql.Open("pgx", url+separator+"search_path="+schema)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_, _ = db.Exec("DROP SCHEMA " + schema + " CASCADE")
			_ = db.Close()
		})
		run(t, db, sqldialect.PostgreSQL)
	})
}

// Make carries out statements that must succeed.
func Make(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
