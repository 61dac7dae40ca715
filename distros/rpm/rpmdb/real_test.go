package rpmdb

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	knownbdb "github.com/knqyf263/go-rpmdb/pkg/bdb"
	knowndb "github.com/knqyf263/go-rpmdb/pkg/db"
	knownndb "github.com/knqyf263/go-rpmdb/pkg/ndb"
	knownsqlite "github.com/knqyf263/go-rpmdb/pkg/sqlite3"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// systems are real databases, one for each format and version.
var systems = []struct {
	name, kind           string
	packages, last, keys int
}{
	{"centos5-plain/Packages", "bdb", 110, 112, 0},
	{"centos6-plain/Packages", "bdb", 129, 155, 0},
	{"centos7-plain/Packages", "bdb", 144, 169, 0},
	{"libuuid/Packages", "bdb", 1, 1, 0},
	{"sle15-bci/Packages.db", "ndb", 35, 40, 0},
	{"cbl-mariner-2.0/rpmdb.sqlite", "sqlite", 129, 129, 0},
}

// TestSystems reads real databases and compares with the known library. It then writes them with one more
// package and lets the known library read the result, too.
func TestSystems(t *testing.T) {
	t.Parallel()
	for _, s := range systems {
		t.Run(path.Dir(s.name), func(t *testing.T) {
			t.Parallel()
			data := systemFile(t, s.name)
			system := rooted(path.Base(s.name), data)
			d := read(t, system)
			assert.Same(t, []any{s.kind, s.packages, s.last, s.keys}, []any{d.Backend(), len(d.Packages()), int(d.contents.Last), len(d.Keys())})
			assert.Equalf(t, true, slices.Equal(bytesOf(d.Packages()), readKnown(t, path.Base(s.name), data)), "the known library reads the same headers")
			added := made(t, "zlib-test 1-1 x86_64")
			changed, removed, err := d.With([]*rpmfile.Header{added})
			if err != nil || len(removed) != 0 {
				t.Fatalf("With: removed %v, %v", removed, err)
			}
			now := read(t, apply(system, changed, removed))
			assert.Samef(t, append(names(d.Packages()), "zlib-test 1-1 x86_64"), names(now.Packages()), "after With")
			if now.contents.Last != d.contents.Last+1 || now.Backend() != d.Backend() || now.folder != d.folder {
				t.Errorf("after With: %s in %s, last number %d", now.Backend(), now.folder, now.contents.Last)
			}
			want := bytesOf(now.Packages())
			if s.kind == "bdb" { // the known library reads only large values
				want = slices.DeleteFunc(want, func(b string) bool { return b == string(added.Bytes()) })
			}
			if !slices.Equal(want, readKnown(t, path.Base(s.name), changed[path.Join(d.folder, path.Base(s.name))])) {
				t.Error("the known library reads other headers from what we wrote")
			}
		})
	}
}

// readKnown reads with the known library.
func readKnown(t *testing.T, file string, data []byte) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), file)
	require.NoError(t, os.WriteFile(name, data, 0o600))
	var db interface{ Read() <-chan knowndb.Entry }
	var err error
	switch file {
	case "Packages":
		db, err = knownbdb.Open(name)
	case "Packages.db":
		db, err = knownndb.Open(name)
	default:
		db, err = knownsqlite.Open(name)
	}
	require.NoError(t, err)
	var out []string
	for e := range db.Read() {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		out = append(out, string(e.Value))
	}
	slices.Sort(out)
	return out
}

// TestSQLiteIndexes compares the indexes and schemas that real rpm wrote (4.17 of CBL-Mariner 2) with those that
// this package writes for the same packages.
func TestSQLiteIndexes(t *testing.T) {
	t.Parallel()
	data := systemFile(t, "cbl-mariner-2.0/"+sqliteFile)
	changed, _, err := read(t, rooted(sqliteFile, data)).With(nil)
	require.NoError(t, err)
	ours := changed["var/lib/rpm/"+sqliteFile]
	if !bytes.HasPrefix(ours, []byte("SQLite format 3\x00\x10\x00\x01\x01")) { // pages of 4096, no write-ahead log
		t.Errorf("begins with %x", ours[:20])
	}
	if diff := cmp.Diff(tables(t, data), tables(t, ours)); diff != "" {
		t.Errorf("(-rpm +ours)\n%.4000s", diff)
	}
}

// tables returns the schema and all rows of a database except the headers.
func tables(t *testing.T, data []byte) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	file := filepath.Join(t.TempDir(), sqliteFile)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	var out []string
	list := func(conn *sql.Conn, query string) error {
		rows, err := conn.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				return err
			}
			out = append(out, line)
		}
		return rows.Err()
	}
	require.NoError(t, withSQLite(ctx, file, nil, func(conn *sql.Conn) error {
		if err := list(conn, "SELECT type||' '||name||' '||tbl_name||' '||coalesce(sql,'') FROM sqlite_master WHERE name != 'sqlite_stat1'"); err != nil {
			return err
		}
		for _, x := range indexes {
			if err := list(conn, fmt.Sprintf("SELECT '%[1]s '||typeof(key)||' '||hex(key)||' '||hnum||' '||idx FROM '%[1]s'", x.table)); err != nil {
				return err
			}
		}
		return list(conn, "SELECT name||' '||seq FROM sqlite_sequence")
	}))
	slices.Sort(out)
	return out
}
