// Package sqlite reads the list of packages of an rpm repository that is a SQLite database (primary_db of repomd.xml), as
// repositories of the time of yum have it, some of them beside the XML and few instead of it. It is apart from package rpm
// because SQLite is large and most programs never meet such a repository.
//
// It does not write, and it reads no lists of files or of changes.
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

// ErrSchema says that a file is not a database as createrepo makes it.
var ErrSchema = errors.New("not a package database")

// pragmas keep a hostile database from doing anything but being read.
const pragmas = "mode=ro&immutable=1&_pragma=query_only(1)&_pragma=trusted_schema(0)&_pragma=cell_size_check(1)&_pragma=mmap_size(0)"

const packagesQuery = `SELECT pkgKey, name, arch, epoch, version, release, checksum_type, pkgId, location_href, location_base,
	size_package, size_installed, time_build FROM packages ORDER BY pkgKey`

// Read hands the packages of a database to add, in the order of the database; an error of add ends it. It fits
// rpm.Options.SQLite.
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

// check refuses what is no plain table: a view or a virtual table of a hostile file can compute for ever.
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
