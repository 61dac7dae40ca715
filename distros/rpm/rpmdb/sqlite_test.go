package rpmdb

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// sqliteWith makes a database with SQL statements and returns its folder.
func sqliteWith(t testing.TB, pragmas []string, statements ...string) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, withSQLite(ctx, filepath.Join(dir, sqliteFile), pragmas, func(conn *sql.Conn) error {
		for _, s := range statements {
			if _, err := conn.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}))
	return dir
}

func fileOf(t testing.TB, dir, name string) *fstest.MapFile {
	t.Helper()
	data := require.Value(os.ReadFile(filepath.Join(dir, name)))(t)
	return &fstest.MapFile{Data: data}
}

const createPackages = "CREATE TABLE 'Packages' (hnum INTEGER PRIMARY KEY AUTOINCREMENT,blob BLOB NOT NULL)"

// TestSQLiteHostile reads databases with schemas that rpm would not make.
func TestSQLiteHostile(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"no table":        {"CREATE TABLE other (x)"},
		"endless view":    {"CREATE VIEW Packages AS WITH RECURSIVE c(hnum) AS (SELECT 1 UNION ALL SELECT hnum+1 FROM c) SELECT hnum, zeroblob(1) AS blob FROM c"},
		"no column":       {"CREATE TABLE Packages (hnum)"},
		"number 0":        {createPackages, "INSERT INTO Packages VALUES(0, 'x')"},
		"number negative": {createPackages, "INSERT INTO Packages VALUES(-1, 'x')"},
		"number 2^32":     {createPackages, "INSERT INTO Packages VALUES(4294967296, 'x')"},
		"number is text":  {"CREATE TABLE Packages (hnum, blob)", "INSERT INTO Packages VALUES('x', 'x')"},
		"number twice":    {"CREATE TABLE Packages (hnum, blob)", "INSERT INTO Packages VALUES(1, 'x')", "INSERT INTO Packages VALUES(1, 'x')"},
		"empty header":    {createPackages, "INSERT INTO Packages VALUES(1, '')"},
		"no header":       {"CREATE TABLE Packages (hnum, blob)", "INSERT INTO Packages VALUES(1, NULL)"},
		"bad header":      {createPackages, "INSERT INTO Packages VALUES(1, 'xxxxxxxxxxxxxxxxxxx')"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			system := fstest.MapFS{"var/lib/rpm/" + sqliteFile: fileOf(t, sqliteWith(t, nil, statements...), sqliteFile)}
			assert.ErrorIs(t, assert.Err(Read(system)), ErrFormat)
		})
	}
}

// TestSQLiteLog reads the changes that an interrupted rpm left in its write-ahead log. Neither the log nor
// its index may remain.
func TestSQLiteLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, sqliteFile)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	system := fstest.MapFS{}
	err := withSQLite(ctx, file, []string{"journal_mode=WAL", "wal_autocheckpoint=0"}, func(conn *sql.Conn) error {
		if _, err := conn.ExecContext(ctx, createPackages); err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, "INSERT INTO Packages VALUES(3, ?)", made(t, "a 1-1 noarch").Bytes()); err != nil {
			return err
		}
		for _, end := range []string{"", "-wal", "-shm"} { // the state before the log is merged
			system["var/lib/rpm/"+sqliteFile+end] = fileOf(t, dir, sqliteFile+end)
		}
		return nil
	})
	require.NoError(t, err)
	d := read(t, system)
	assert.Samef(t, []string{"a 1-1 noarch"}, names(d.Packages()), "packages")
	changed, removed, err := d.With([]*rpmfile.Header{made(t, "b 1-1 noarch")})
	if want := []string{"var/lib/rpm/rpmdb.sqlite-shm", "var/lib/rpm/rpmdb.sqlite-wal"}; err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v (%v)", removed, want, err)
	}
	assert.Samef(t, []string{"a 1-1 noarch", "b 1-1 noarch"}, names(read(t, apply(system, changed, removed)).Packages()), "after With")
}

// TestSQLiteLeftBehind: neither a trigger that adds a package on every write counts, nor a journal, with which SQLite would
// delete the file that it names.
func TestSQLiteLeftBehind(t *testing.T) {
	t.Parallel()
	dir := sqliteWith(t, nil, createPackages,
		"CREATE TRIGGER evil AFTER INSERT ON Packages BEGIN INSERT INTO Packages VALUES(new.hnum+100, new.blob); END")
	system := fstest.MapFS{
		"var/lib/rpm/" + sqliteFile:              fileOf(t, dir, sqliteFile),
		"var/lib/rpm/" + sqliteFile + "-journal": {Data: []byte("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7 and the name of a file")},
	}
	changed, removed, err := read(t, system).With([]*rpmfile.Header{made(t, "a 1-1 noarch")})
	require.NoError(t, err)
	assert.Same(t, []string{"var/lib/rpm/rpmdb.sqlite-journal"}, removed)
	assert.Same(t, []string{"a 1-1 noarch"}, names(read(t, apply(system, changed, removed)).Packages()))
}

func FuzzReadSQLite(f *testing.F) {
	dir := sqliteWith(f, []string{"page_size=512"}, createPackages, "INSERT INTO Packages VALUES(1, zeroblob(3000))", "INSERT INTO Packages VALUES(2, 'x')")
	f.Add(fileOf(f, dir, sqliteFile).Data)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		if _, _, err := readSQLiteFile(fstest.MapFS{sqliteFile: {Data: data}}, sqliteFile); err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("not ErrFormat: %v", err)
		}
	})
}
