package rpmdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	driver "modernc.org/sqlite"
)

const (
	sqliteFile    = "rpmdb.sqlite"
	sqliteTimeout = 5 * time.Minute // for reading or writing a database; the largest take seconds

	// Identifiers of sqlite3_limit.
	sqliteLimitLength = 0
	sqliteLimitSQL    = 1
)

// inFolder passes a file of a new folder to do, and removes the folder afterwards.
func inFolder(do func(ctx context.Context, file string) error) error {
	dir, err := os.MkdirTemp("", "rpmdb-")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), sqliteTimeout)
	defer cancel()
	err = do(ctx, filepath.Join(dir, sqliteFile))
	if ctx.Err() != nil {
		err = fmt.Errorf("it took more than %v: %w", sqliteTimeout, ctx.Err())
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// readSQLiteFile reads rpmdb.sqlite from a copy, because SQLite needs a file of its own, and has to
// merge the log that a system has beside it if rpm was interrupted (rpmdb.sqlite-wal). It does not
// copy a journal of the other kind (rpmdb.sqlite-journal), which rpm does not use: a journal can
// name files that SQLite would then delete.
func readSQLiteFile(root fs.FS, name string) (c Contents, detail uint32, err error) {
	err = inFolder(func(ctx context.Context, file string) error {
		for _, ending := range []string{"", "-wal"} {
			data, err := readFile(root, name+ending)
			if ending != "" && errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return fmt.Errorf("copy it: %w", err)
			}
			err = os.WriteFile(file+ending, data, 0o600)
			if err != nil {
				return fmt.Errorf("copy it: %w", err)
			}
		}
		pragmas := []string{"trusted_schema=0", "cell_size_check=1", "mmap_size=0"}
		err := withSQLite(ctx, file, pragmas, func(conn *sql.Conn) (err error) {
			c, err = readSQLite(ctx, conn)
			return err
		})
		if err != nil {
			return damaged("%w", err)
		}
		return nil
	})
	return c, 0, err
}

// withSQLite opens a file that this package wrote, sets pragmas, and passes the only connection to
// do.
func withSQLite(
	ctx context.Context,
	file string,
	pragmas []string,
	do func(*sql.Conn) error,
) (err error) {
	source := url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for id, most := range map[int]int{sqliteLimitLength: MaxBlob + 1024, sqliteLimitSQL: 1 << 20} {
		if _, err := driver.Limit(conn, id, most); err != nil {
			return err
		}
	}
	for _, p := range pragmas {
		if _, err := conn.ExecContext(ctx, "PRAGMA "+p); err != nil {
			return fmt.Errorf("PRAGMA %s: %w", p, err)
		}
	}
	return do(conn)
}

// readSQLite reads the headers. The schema comes from the base, so Packages could be a view that
// never ends: it has to be a table, and the number of rows and bytes is limited.
func readSQLite(ctx context.Context, conn *sql.Conn) (c Contents, err error) {
	var kind, text string
	row := conn.QueryRowContext(ctx, "SELECT type, sql FROM sqlite_master WHERE name = 'Packages'")
	if err := row.Scan(&kind, &text); err != nil {
		return c, fmt.Errorf("look for the table Packages: %w", err)
	}
	if kind != "table" || strings.Contains(strings.ToUpper(text), "VIRTUAL") {
		return c, errors.New("Packages is not a plain table")
	}
	rows, err := conn.QueryContext(ctx, "SELECT hnum, blob FROM Packages")
	if err != nil {
		return c, fmt.Errorf("read the table Packages: %w", err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err is looked at
	total := 0
	for rows.Next() {
		var r Record
		err = rows.Scan(&r.Number, &r.Blob)
		if err != nil {
			return c, fmt.Errorf("read the table Packages: %w", err)
		}
		err = c.Add(r, &total)
		if err != nil {
			return c, err
		}
	}
	if err := rows.Err(); err != nil {
		return c, fmt.Errorf("read the table Packages: %w", err)
	}
	// The numbers of removed packages are not used again. If the table is missing, it does no harm
	// if they are.
	var last int64
	row = conn.QueryRowContext(ctx, "SELECT max(seq) FROM sqlite_sequence WHERE name = 'Packages'")
	_ = row.Scan(&last)
	if last > 0 && last < MaxNumber {
		c.Last = max(c.Last, uint32(last))
	}
	return c, nil
}
