package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/rpm"
)

// schema is the schema of createrepo_c, without its indexes.
const schema = `
CREATE TABLE db_info (dbversion INTEGER, checksum TEXT);
CREATE TABLE packages (pkgKey INTEGER PRIMARY KEY, pkgId TEXT, name TEXT, arch TEXT, version TEXT, epoch TEXT, release TEXT, summary TEXT,
  description TEXT, url TEXT, time_file INTEGER, time_build INTEGER, rpm_license TEXT, rpm_vendor TEXT, rpm_group TEXT, rpm_buildhost TEXT,
  rpm_sourcerpm TEXT, rpm_header_start INTEGER, rpm_header_end INTEGER, rpm_packager TEXT, size_package INTEGER, size_installed INTEGER,
  size_archive INTEGER, location_href TEXT, location_base TEXT, checksum_type TEXT);
CREATE TABLE files (name TEXT, type TEXT, pkgKey INTEGER);
CREATE TABLE requires (name TEXT, flags TEXT, epoch TEXT, version TEXT, release TEXT, pkgKey INTEGER, pre BOOLEAN DEFAULT FALSE);
CREATE TABLE provides (name TEXT, flags TEXT, epoch TEXT, version TEXT, release TEXT, pkgKey INTEGER);
CREATE TABLE conflicts (name TEXT, flags TEXT, epoch TEXT, version TEXT, release TEXT, pkgKey INTEGER);
CREATE TABLE obsoletes (name TEXT, flags TEXT, epoch TEXT, version TEXT, release TEXT, pkgKey INTEGER);`

const rows = `
INSERT INTO packages (pkgKey, pkgId, name, arch, version, epoch, release, time_build, size_package, size_installed, location_href, checksum_type)
  VALUES (2, 'aa', 'gcc', 'x86_64', '4.8.5', '0', '44.el7', 1600000000, 10, 20, 'Packages/gcc.rpm', 'sha256'),
         (1, 'bb', 'bash', 'x86_64', '4.2', NULL, '1', NULL, '7', 8, 'bash.rpm', 'sha256');
INSERT INTO requires VALUES ('cpp', 'EQ', '0', '4.8.5', '44.el7', 2, 'FALSE'), ('lost', NULL, NULL, NULL, NULL, 0, 'FALSE'), ('libc.so.6', NULL, NULL, NULL, NULL, 1, 'FALSE'), ('m4', NULL, NULL, NULL, NULL, 2, 'FALSE');
INSERT INTO provides VALUES ('gcc', 'EQ', '0', '4.8.5', '44.el7', 2), ('late', NULL, NULL, NULL, NULL, 9);
INSERT INTO obsoletes VALUES ('egcs', 'LT', '0', '2', NULL, 2);
INSERT INTO files VALUES ('/usr/bin/gcc', 'file', 2), ('/bin/bash', 'file', 1), ('/etc/x', 'file', 1);`

func database(t testing.TB, statements ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "primary.sqlite")
	db := require.Value(sql.Open("sqlite", "file:"+name))(t)
	for _, s := range statements {
		require.Value(db.ExecContext(t.Context(), s))(t)
	}
	require.NoError(t, db.Close())
	return name
}

func TestRead(t *testing.T) {
	t.Parallel()
	var got []rpm.Record
	require.NoError(t, Read(t.Context(), database(t, schema, rows), func(r rpm.Record) error {
		got = append(got, r)
		return nil
	}))
	want := []rpm.Record{
		{
			Name: "bash", Arch: "x86_64", Version: "4.2", Release: "1", ChecksumType: "sha256", Checksum: "bb", Location: "bash.rpm", Size: 7, Installed: 8,
			Requires: []rpm.RecordRelation{{Name: "libc.so.6"}}, Files: []string{"/bin/bash", "/etc/x"},
		},
		{
			Name: "gcc", Arch: "x86_64", Epoch: "0", Version: "4.8.5", Release: "44.el7", ChecksumType: "sha256", Checksum: "aa",
			Location: "Packages/gcc.rpm", Size: 10, Installed: 20, Built: 1600000000, Files: []string{"/usr/bin/gcc"},
			Requires:  []rpm.RecordRelation{{Name: "cpp", Flags: "EQ", Epoch: "0", Version: "4.8.5", Release: "44.el7"}, {Name: "m4"}},
			Provides:  []rpm.RecordRelation{{Name: "gcc", Flags: "EQ", Epoch: "0", Version: "4.8.5", Release: "44.el7"}},
			Obsoletes: []rpm.RecordRelation{{Name: "egcs", Flags: "LT", Epoch: "0", Version: "2"}},
		},
	}
	assert.Samef(t, want, got, "Read")
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	none := func(rpm.Record) error { return nil }
	endless := "DROP TABLE files; CREATE VIEW files AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT 'a' AS name, 'file' AS type, 1 AS pkgKey FROM n"
	for name, statements := range map[string][]string{
		"empty":          {"CREATE TABLE x (y)"},
		"a view":         {schema, rows, endless},
		"a virtual one":  {schema, rows, "DROP TABLE files; CREATE VIRTUAL TABLE files USING fts5(name, type, pkgKey)"},
		"another schema": {schema, "ALTER TABLE packages DROP COLUMN pkgId"},
		"other types":    {schema, rows, "UPDATE packages SET time_build = 'x'"},
		"key is a text":  {schema, rows, "UPDATE files SET pkgKey = 'x'"},
	} {
		assert.Errorf(t, Read(t.Context(), database(t, statements...), none), "%s: accepted", name)
	}
	garbage := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(garbage, []byte("hello, this is no database"), 0o600))
	for _, name := range []string{garbage, "/nonexistent/x"} {
		assert.ErrorIsf(t, Read(t.Context(), name, none), ErrSchema, "Read(%s)", name)
	}
	stop := errors.New("stop")
	good := database(t, schema, rows)
	assert.ErrorIsf(t, Read(t.Context(), good, func(rpm.Record) error { return stop }), stop, "Read(add fails)")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIsf(t, Read(ctx, good, none), context.Canceled, "Read(cancelled)")
}

// FuzzRead changes bytes of a database: Read must end without a panic.
func FuzzRead(f *testing.F) {
	good := require.Value(os.ReadFile(database(f, schema, rows)))(f)
	f.Add(uint16(100), []byte{0xff, 0}, uint16(4000))
	f.Add(uint16(28), []byte{0, 0, 0, 1}, uint16(9000))
	f.Fuzz(func(t *testing.T, at uint16, patch []byte, length uint16) {
		data := append([]byte{}, good[:min(len(good), int(length)+512)]...)
		copy(data[min(len(data), int(at)):], patch)
		name := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.WriteFile(name, data, 0o600))
		n := 0
		_ = Read(t.Context(), name, func(rpm.Record) error { n++; return nil }) //nolint:errcheck // an error is as good as a result
		if n > 1000 {
			t.Errorf("%d packages of a file of %d bytes", n, len(data))
		}
	})
}
