// Package sqlite reads the list of packages of an rpm repository that is a SQLite database (primary_db in
// repomd.xml). Repositories from the time of yum have it: some beside the XML, a few instead of it. It is
// separate from package rpm because SQLite is large and most programs never need it.
//
// It does not write, and it does not read lists of files or of changes.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver

	"github.com/driver-container/driver-container/distros/rpm"
)

// ErrSchema says that a file is not a database in createrepo's format.
var ErrSchema = errors.New("not a package database")

// pragmas restrict a hostile database to being read.
const pragmas = "mode=ro&immutable=1&_pragma=query_only(1)&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)&_pragma=mmap_size(0)"

const packagesQuery = `SELECT pkgKey, name, arch, epoch, version, release, checksum_type, pkgId, location_href, location_base,
	size_package, size_installed, time_build FROM packages ORDER BY pkgKey`

// Read passes the packages of a database to add, in the order of the database, and stops at an error of add.
// It is a value for rpm.Options.SQLite.
func Read(ctx context.Context, file string, add func(rpm.Record) error) (err error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("read package database %s: %w", file, err)
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: abs, RawQuery: pragmas}).String())
	if err == nil {
		err = errors.Join(read(ctx, db, add), db.Close())
	}
	if err != nil {
		return fmt.Errorf("read package database %s: %w", filepath.Base(file), err)
	}
	return nil
}

func read(ctx context.Context, db *sql.DB, add func(rpm.Record) error) (err error) {
	if err := check(ctx, db); err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, packagesQuery)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	lists, err := openLists(ctx, db)
	defer func() { err = errors.Join(err, lists.close()) }()
	if err != nil {
		return err
	}
	for rows.Next() {
		var key int64
		var r rpm.Record
		if err := rows.Scan(&key, text{&r.Name}, text{&r.Arch}, text{&r.Epoch}, text{&r.Version}, text{&r.Release}, text{&r.ChecksumType},
			text{&r.Checksum}, text{&r.Location}, text{&r.Base}, number{&r.Size}, number{&r.Installed}, number{&r.Built}); err != nil {
			return fmt.Errorf("%w: table packages: %w", ErrSchema, err)
		}
		if err := lists.fill(key, &r); err != nil {
			return err
		}
		if err := add(r); err != nil {
			return err
		}
	}
	return rows.Err()
}

// check refuses anything except plain tables: a view or a virtual table of a hostile file can compute
// forever.
func check(ctx context.Context, db *sql.DB) error {
	for _, name := range []string{"packages", "requires", "provides", "conflicts", "obsoletes", "files"} {
		var made string
		err := db.QueryRowContext(ctx, "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", name).Scan(text{&made})
		if err != nil {
			return fmt.Errorf("%w: table %s: %w", ErrSchema, name, err)
		}
		if words := strings.Fields(made); len(words) < 3 || !strings.EqualFold(words[0], "create") || !strings.EqualFold(words[1], "table") {
			return fmt.Errorf("%w: %s is no plain table", ErrSchema, name)
		}
	}
	return nil
}
