package rpmdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeSQLite makes a new rpmdb.sqlite: the base's file may have any schema, including triggers
// that would run on each write. The new file does not use a write-ahead log, so that everyone who
// may read the file can read the database: with a log, SQLite needs to write beside it. rpm
// switches to a log when it next writes.
func writeSQLite(c Contents, _ uint32) (files map[string][]byte, err error) {
	dir, err := os.MkdirTemp("", "rpmdb-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(context.Background(), sqliteTimeout)
	defer cancel()
	file := filepath.Join(dir, sqliteFile)
	// On failure the file is deleted, so nothing has to be synced to the disk.
	pragmas := []string{
		"page_size=4096",
		"journal_mode=OFF",
		"synchronous=OFF",
		"locking_mode=EXCLUSIVE",
	}
	if err := withSQLite(ctx, file, pragmas, func(conn *sql.Conn) error { return fillSQLite(ctx, conn, c) }); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{sqliteFile: data}, nil
}

// fillSQLite makes tables like rpm 4.16 to 4.20, and indexes after their tables are filled, which
// is faster.
func fillSQLite(ctx context.Context, conn *sql.Conn, c Contents) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit
	exec := func(text string, args ...any) error {
		if _, err := tx.ExecContext(ctx, text, args...); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		return nil
	}
	if err := exec("CREATE TABLE 'Packages' (hnum INTEGER PRIMARY KEY AUTOINCREMENT,blob BLOB NOT NULL)"); err != nil {
		return err
	}
	for _, p := range c.Records {
		if err := exec("INSERT INTO 'Packages' VALUES(?, ?)", int64(p.Number), p.Blob); err != nil {
			return err
		}
	}
	if err := exec("DELETE FROM sqlite_sequence"); err != nil {
		return err
	}
	if err := exec("INSERT INTO sqlite_sequence VALUES('Packages', ?)", int64(c.Last)); err != nil {
		return err
	}
	for _, x := range indexes {
		if err := fillSQLiteIndex(ctx, tx, c.Records, x); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// fillSQLiteIndex makes one of the tables that find packages. The names in the statements are
// constants of this package.
func fillSQLiteIndex(ctx context.Context, tx *sql.Tx, packages []Record, x index) error {
	kind := "TEXT"
	if x.binary {
		kind = "BLOB"
	}
	create := fmt.Sprintf(
		"CREATE TABLE '%s' (key '%s' NOT NULL, hnum INTEGER NOT NULL, idx INTEGER NOT NULL, FOREIGN KEY (hnum) REFERENCES 'Packages'(hnum))",
		x.table,
		kind,
	)
	if _, err := tx.ExecContext(ctx, create); err != nil {
		return fmt.Errorf("%s: %w", create, err)
	}
	insert, err := tx.PrepareContext(ctx, fmt.Sprintf("INSERT INTO '%s' VALUES(?, ?, ?)", x.table))
	if err != nil {
		return fmt.Errorf("table %s: %w", x.table, err)
	}
	defer insert.Close() //nolint:errcheck // frees memory
	count := 0
	for _, p := range packages {
		list := x.postings(p.Header)
		if count += len(list); count > maxPostings {
			return tooMany(x)
		}
		for _, item := range list {
			var key any = item.key
			if x.binary {
				key = []byte(item.key)
			}
			if _, err := insert.ExecContext(ctx, key, int64(p.Number), int64(item.position)); err != nil {
				return fmt.Errorf("table %s: %w", x.table, err)
			}
		}
	}
	for _, column := range x.columns() {
		text := fmt.Sprintf("CREATE INDEX '%[1]s_%[2]s_idx' ON '%[1]s'(%[2]s ASC)", x.table, column)
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// columns returns the columns of an index's table for which rpm makes an SQLite index.
func (x index) columns() []string {
	switch {
	case x.binary:
		return nil
	case x.many:
		return []string{"key", "hnum"}
	}
	return []string{"key"}
}
