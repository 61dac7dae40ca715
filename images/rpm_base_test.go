package images

import (
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestRPMBases: databases of the other formats, found through links, and an index with SHA-512 only that is
// signed itself.
func TestRPMBases(t *testing.T) {
	t.Parallel()
	for id, c := range map[string]struct {
		kind, file, compiler string
		gone                 []string
	}{
		"opensuse-leap15.6": {"ndb", "usr/lib/sysimage/rpm/Packages.db", "gcc7 11.4.1-3.1.x86_64", nil},
		"centos7":           {"bdb", "var/lib/rpm/Packages", "gcc 11.4.1-3.el7.x86_64", []string{"var/lib/rpm/Name", "var/lib/rpm/__db.001"}},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, id)
			r.Change = func(files []repotest.File) []repotest.File {
				for _, name := range c.gone {
					files = append(files, repotest.File{Name: name, Body: "an index of before"})
				}
				return files
			}
			r.PushBase()
			planned := r.plan(t, recipe.Options{})
			for _, p := range planned.Packages {
				if r.SHA512 && (p.SHA256 != "" || len(p.SHA512) != 128) || r.Signed == (len(p.Keys) > 0) {
					t.Errorf("%+v", p)
				}
			}
			img := require.Value(r.b.Build(t.Context(), planned))(t)
			tree := treeOf(t, img)
			db, err := rpmdb.Read(tree.OpenFS())
			if err != nil || db.Kind() != c.kind || !tree.Exists(c.file) {
				t.Fatalf("%+v, %v", db, err)
			}
			all := installedRPMs(t, tree)
			if has := func(s string) bool { return slices.Contains(all, s) }; !has(c.compiler) || slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "mawk") || strings.HasPrefix(s, "glibc 2.34-60") }) {
				t.Errorf("%q", all)
			}
			for _, name := range append(c.gone, "usr/lib64/libold.so.1") {
				if tree.Exists(name) {
					t.Errorf("%s is still there", name)
				}
			}
			if !tree.Exists("usr/bin/gcc") || !tree.Exists("usr/bin/cc") {
				t.Error("no compiler by its usual names")
			}
			wantFit(t, r.b, img)
		})
	}
}
