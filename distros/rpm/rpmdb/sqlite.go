package rpmdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
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

// readSQLiteFile reads rpmdb.sqlite from a copy, because SQLite needs a file of its own, and has to
// merge the log that a system has beside it if rpm was interrupted (rpmdb.sqlite-wal). It does not
// copy a journal of the other kind (rpmdb.sqlite-journal), which rpm does not use: a journal can
// name files that SQLite would then delete.
func readSQLiteFile(root fs.FS, name string) (c Contents, detail uint32, err error) {
	dir, err := os.MkdirTemp("", "rpmdb-")
	if err != nil {
		return c, 0, fmt.Errorf("copy it: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, sqliteFile)
	if err := copyFile(root, name, file); err != nil {
		return c, 0, fmt.Errorf("copy it: %w", err)
	}
	if err := copyFile(root, name+"-wal", file+"-wal"); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		return c, 0, fmt.Errorf("copy %s-wal: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), sqliteTimeout)
	defer cancel()
	err = withSQLite(
		ctx,
		file,
		[]string{"trusted_schema=0", "cell_size_check=1", "mmap_size=0"},
		func(conn *sql.Conn) error {
			c, err = readSQLite(ctx, conn)
			return err
		},
	)
	switch {
	case ctx.Err() != nil:
		return c, 0, fmt.Errorf("read it: took more than %v: %w", sqliteTimeout, ctx.Err())
	case err != nil && !errors.Is(err, ErrFormat):
		return c, 0, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return c, 0, err
}

func copyFile(root fs.FS, name, to string) error {
	in, err := root.Open(name)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read only
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, MaxBytes+1))
	if err == nil && n > MaxBytes {
		err = fmt.Errorf("%w: more than %d bytes", ErrFormat, MaxBytes)
	}
	return errors.Join(err, out.Close())
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
			return fmt.Errorf("PRAGMA %s: %w", strings.SplitN(p, "=", 2)[0], err)
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
		var number int64
		var blob []byte
		if err := rows.Scan(&number, &blob); err != nil {
			return c, fmt.Errorf("read the table Packages: %w", err)
		}
		if number <= 0 || number > MaxNumber {
			return c, fmt.Errorf("%w: a package has the number %d", ErrFormat, number)
		}
		if err := c.Add(Record{Number: uint32(number), Blob: blob}, &total); err != nil {
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
	if err := row.Scan(&last); err == nil && last > 0 && last < MaxNumber {
		c.Last = max(c.Last, uint32(last))
	}
	return c, nil
}
