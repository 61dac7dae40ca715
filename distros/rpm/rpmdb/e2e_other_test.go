package rpmdb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// TestOtherRPMs checks ndb, which Debian 12's rpm does not know, with that of Debian 13 (4.20), in a system that
// mmdebstrap makes.
func TestOtherRPMs(t *testing.T) {
	tool.Real(t, "needs the programs of rpm")
	tool.AsRoot(t, "for chroot")
	files := realrepo.Build(t, packages...)
	root := filepath.Join(t.TempDir(), "trixie")
	tool.Must(t, "cp", "-a", realrepo.Debian(t, "trixie"), root)
	rpm := func(args ...string) string {
		args = append([]string{root, "rpm", "--define", "_db_backend ndb", "--dbpath", "/" + folders[0], "--nosignature"}, args...)
		out, _ := exec.CommandContext(t.Context(), "chroot", args...).CombinedOutput()
		return strings.Join(slices.Compact(sorted(strings.Split(strings.TrimSpace(string(out)), "\n"))), "\n")
	}
	install := func(files ...string) {
		args := []string{"-i", "--nodeps", "--noscripts"}
		for _, file := range files {
			tool.Must(t, "cp", file, root)
			args = append(args, "/"+filepath.Base(file))
		}
		t.Log(rpm(args...))
	}
	rpm("--initdb")
	install(files[:2]...)
	d := recordIn(t, root, files[2:4]...)
	if d.Kind() != "ndb" || d.folder != folders[0] || d.contents.Last != 4 {
		t.Fatalf("%s in %s, last number %d", d.Kind(), d.folder, d.contents.Last)
	}
	index, _ := os.ReadFile(filepath.Join(root, folders[0], "Index.db"))
	for question, want := range map[string]string{
		"-qa":                                  "base-1-1.noarch\nlib-1.1-1.el9.x86_64\ntool-1.5-3.x86_64",
		"-q --whatprovides libx.so.1()(64bit)": "lib-1.1-1.el9.x86_64",
		"-q --whatrequires base":               "tool-1.5-3.x86_64",
		"-q --whatrecommends x":                "tool-1.5-3.x86_64",
		"-qf /etc/tool.conf":                   "tool-1.5-3.x86_64",
		"-qf /usr/lib64/libx.so.1":             "lib-1.1-1.el9.x86_64",
		"-V lib":                               "",
		"-V --nodeps tool":                     "",
		"--verifydb":                           "",
	} {
		assert.Equalf(t, want, rpm(strings.Fields(question)...), "rpm %s", question)
	}
	if now, _ := os.ReadFile(filepath.Join(root, folders[0], "Index.db")); !bytes.Equal(now, index) {
		t.Error("rpm made Index.db again")
	}
	install(files[4])
	rpm("-e", "--nodeps", "--noscripts", "tool")
	assert.Equalf(t, "base 2\nlater 5\nlib 4", rpm("-qa", "--qf", "%{name} %{dbinstance}\n"), "after rpm installed and erased")
	assert.Same(t, []string{"base 1-1 noarch", "lib 1.1-1.el9 x86_64", "later 1-1 x86_64"}, names(read(t, os.DirFS(root)).Packages()))
	compareNDBIndex(t, root, rpm)
}

// compareNDBIndex lets rpm make Index.db for the packages of real systems, and compares it with this
// package's.
func compareNDBIndex(t *testing.T, root string, rpm func(...string) string) {
	t.Helper()
	folder := filepath.Join(root, folders[0])
	d := read(t, rooted(sqliteFile, systemFile(t, "fedora35-plus-mongo/"+sqliteFile)))
	written := require.Value(writeNDB(d.contents, 0))(t)
	require.NoError(t, os.Remove(filepath.Join(folder, "Index.db")))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "Packages.db"), written["Packages.db"], 0o644))
	rpm("-qa")
	theirs := require.Value(os.ReadFile(filepath.Join(folder, "Index.db")))(t)
	want, got := readNDBIndex(t, theirs), readNDBIndex(t, written["Index.db"])
	if !slices.Equal(want, got) {
		t.Errorf("Index.db: rpm has %d entries, we %d", len(want), len(got))
	}
}
