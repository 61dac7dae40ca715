package rpmdb

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// packages are built for these tests. The real rpm installs the last one into the database that this package
// wrote.
var packages = []realrepo.Package{
	{Name: "base", Version: "1-1", Arch: "noarch", Files: []realrepo.File{{Path: "/usr", Mode: fs.ModeDir}, {Path: "/usr/share", Mode: fs.ModeDir}}},
	{Name: "lib", Version: "2:1.0-1.el9", Provides: []string{"libx.so.1()(64bit)"}, Files: []realrepo.File{{Path: "/usr/lib64/libx.so.1", Body: "old"}}},
	{
		Name: "tool", Version: "1.5-3", Requires: []string{"lib >= 1:1", "(base if lib else other)", "(base or (a with b))"},
		Conflicts: []string{"foe < 3"}, Obsoletes: []string{"gone"},
		Weak: []string{"Recommends: (x if y)", "Suggests: s", "Supplements: (u and v)", "Enhances: w"},
		Files: []realrepo.File{
			{Path: "/usr/bin/tool", Body: "#!/bin/sh\n", Mode: 0o755}, {Path: "/usr/bin/alias", Body: "tool", Mode: fs.ModeSymlink},
			{Path: "/etc/tool.conf", Body: "x\n", Config: true}, {Path: "/var/log/tool", Ghost: true},
		},
	},
	{Name: "lib", Version: "2:1.1-1.el9", Provides: []string{"libx.so.1()(64bit)"}, Files: []realrepo.File{{Path: "/usr/lib64/libx.so.1", Body: "new"}}},
	{Name: "later", Version: "1-1", Files: []realrepo.File{{Path: "/usr/bin/later", Body: "later"}}},
}

// questions are the arguments of rpm whose output the tests compare; what it finds by an index is compared with the indexes.
var questions = [][]string{
	{"-qa"},
	{"-ql", "tool"},
	{"-q", "--scripts", "-i", "lib", "--qf", "%{epochnum} %{dbinstance}\n"},
	{"-V", "lib"},
	{"-V", "tool"},
	{"--verifydb"},
}

// unpack installs the files of a package and returns its record.
func unpack(t *testing.T, root, file string) *rpmfile.Header {
	t.Helper()
	in := require.Value(os.Open(file))(t)
	defer in.Close()
	f := require.Value(rpmfile.Open(in))(t)
	require.NoError(t, f.Payload(func(h *tar.Header, r io.Reader) error {
		name := filepath.Join(root, h.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			return os.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			return os.Symlink(h.Linkname, name)
		}
		data, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(name, data, h.FileInfo().Mode().Perm())
		}
		if err == nil {
			err = os.Chtimes(name, h.ModTime, h.ModTime)
		}
		return err
	}))
	return require.Value(f.InstalledHeader(time.Unix(1700000000, 0), 3, nil))(t)
}

// recordIn installs files into a system with this project's code.
func recordIn(t *testing.T, root string, files ...string) *Database {
	t.Helper()
	d := read(t, os.DirFS(root))
	var headers []*rpmfile.Header
	for _, f := range files {
		headers = append(headers, unpack(t, root, f))
	}
	changed, removed, err := d.With(headers)
	require.NoError(t, err)
	for _, name := range removed {
		require.NoError(t, os.Remove(filepath.Join(root, name)))
	}
	for name, data := range changed {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), data, 0o644))
	}
	return read(t, os.DirFS(root))
}

// TestRPM installs packages into one system with the real rpm, and into another with this package: rpm must
// see no difference, its indexes must equal those that this package wrote, and rpm must be able to install
// more.
func TestRPM(t *testing.T) {
	tool.Real(t, "needs the programs of rpm")
	files := realrepo.Build(t, packages...)
	theirs, ours := realrepo.NewRoot(t), realrepo.NewRoot(t)
	theirs.Install(t, files[:2]...)
	theirs.Install(t, files[2])
	theirs.RPM(t, "-U", "--force-debian", "--nodeps", "--noscripts", "--nodigest", files[3])
	ours.Install(t, files[:2]...)
	recordIn(t, ours.Dir, files[2:4]...)
	for _, q := range questions {
		assert.Samef(t, ask(t, theirs.Dir, nil, q), ask(t, ours.Dir, nil, q), "rpm %v (-rpm's +ours)", q)
	}
	rows := func(r *realrepo.Root) []string { // without those of the time of installation
		data := require.Value(os.ReadFile(filepath.Join(r.Dir, "var/lib/rpm", sqliteFile)))(t)
		return slices.DeleteFunc(tables(t, data), func(line string) bool { return strings.HasPrefix(line, "Installtid ") })
	}
	assert.Samef(t, rows(theirs), rows(ours), "indexes (-rpm's +ours)")
	ours.Install(t, files[4])
	ours.RPM(t, "-e", "--nodeps", "--noscripts", "tool")
	assert.Samef(t, []string{"base-1-1.noarch", "later-1-1.x86_64", "lib-2:1.1-1.el9.x86_64"}, sorted(ours.Installed(t)), "after rpm installed and erased")
	assert.Equal(t, "", ask(t, ours.Dir, nil, []string{"-V", "later"}))
}

// ask runs rpm on a system and returns its output; a failure counts as an answer, too.
func ask(t *testing.T, root string, more, question []string) string {
	t.Helper()
	args := append([]string{"--root", root, "--dbpath", "/var/lib/rpm", "--nosignature"}, more...)
	out, _ := exec.CommandContext(t.Context(), "rpm", append(args, question...)...).CombinedOutput()
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(line string) bool {
		return strings.Contains(line, "Install Date") || strings.Contains(line, "could not open") // indexes that bdb_ro misses
	})
	return strings.Join(sorted(lines), "\n")
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// TestBDBTools makes a base with Berkeley DB's own tools. They check the files that this package writes, with
// every kind of page, and rpm's reader of bdb reads them.
func TestBDBTools(t *testing.T) {
	tool.Real(t, "needs the programs of rpm")
	dir := t.TempDir()
	folder := filepath.Join(dir, "var/lib/rpm")
	file := filepath.Join(folder, "Packages")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for _, size := range []int{512, 1024, 4096, 32768} {
		require.NoError(t, os.WriteFile(file, WriteBDB(sample(size), uint32(size)), 0o600))
		tool.Must(t, "db5.3_verify", file)
	}
	require.NoError(t, os.Remove(file))
	files := realrepo.Build(t, packages...)
	var dump strings.Builder
	fmt.Fprintf(&dump, "VERSION=3\nformat=bytevalue\ntype=hash\ndb_lorder=1234\ndb_pagesize=4096\nHEADER=END\n %x\n %x\n", keyOf(0), keyOf(9))
	for i, f := range files[:2] {
		fmt.Fprintf(&dump, " %x\n %x\n", keyOf(uint32(i+3)), unpack(t, dir, f).Bytes())
	}
	load := exec.CommandContext(t.Context(), "db5.3_load", file)
	load.Stdin = strings.NewReader(dump.String() + "DATA=END\n")
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("db5.3_load: %v\n%s", err, out)
	}
	d := recordIn(t, dir, files[2:4]...)
	installed := d.contents.Records
	assert.Samef(t, []uint32{11, 3, 10, 11}, []uint32{d.contents.Last, installed[0].Number, installed[1].Number, installed[2].Number}, "numbers")
	tool.Must(t, "db5.3_verify", file)
	want := "base-1-1.noarch\nlib-1.1-1.el9.x86_64\ntool-1.5-3.x86_64"
	assert.Equalf(t, want, ask(t, dir, []string{"--define", "_db_backend bdb_ro"}, []string{"-qa"}), "rpm -qa")
}
