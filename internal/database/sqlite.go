package database

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

const sqliteReaders = 4

// OpenSQLite opens a SQLite file, and makes it and its folder if they do not exist (modes 0600 and
// 0700: rows name users). One connection writes, each transaction from its BEGIN IMMEDIATE on; a
// few others read beside it (WAL). It fails when the file cannot be made.
func OpenSQLite(path string, opts ...Option) (*DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open SQLite file: %w", err)
	}
	db := newDB(SQLite, "SQLite file "+path, opts)
	db.file = path
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open %s: %w", db.object, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", db.object, err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("open %s: %w", db.object, err)
	}

	busy := fmt.Sprintf("busy_timeout(%d)", db.opts.lockWait.Milliseconds())
	// A committed row must outlive a power cut: the record of an operation is what recovery trusts.
	db.write, err = openSQLite(path, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {busy, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", db.object, err)
	}
	db.write.SetMaxOpenConns(1)
	db.read, err = openSQLite(path, url.Values{"_pragma": {busy, "query_only(1)"}})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", db.object, err)
	}
	db.read.SetMaxOpenConns(sqliteReaders)
	return db, nil
}

func openSQLite(path string, params url.Values) (*sql.DB, error) {
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}
	return sql.Open("sqlite", dsn.String())
}
