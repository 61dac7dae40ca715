package images

import (
	"archive/tar"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// rpmRig is a world of one rpm system and a builder in it.
type rpmRig struct {
	*imagetest.RPMWorld
	*imagetest.RPMSystem
	id string
	b  *Builder
}

func newRPMRig(t *testing.T, id string) *rpmRig {
	t.Helper()
	w := imagetest.NewRPM(t, id)
	return &rpmRig{w, w.Systems[id], id, newBuilder(t, w.World, t.TempDir())}
}

func (r *rpmRig) target(t *testing.T) matrix.Target {
	t.Helper()
	m := require.Value(matrix.Parse("matrix.yaml", []byte(r.Matrix())))(t)
	driver := newDriver
	if r.id == "centos7" {
		driver = oldDriver
	}
	targets, err := m.Select(pair(r.id, driver))
	if err != nil || len(targets) != 1 {
		t.Fatalf("%d targets, %v", len(targets), err)
	}
	return targets[0]
}

func (r *rpmRig) plan(t *testing.T, o recipe.Options) *recipe.Recipe {
	t.Helper()
	return require.Value(planOne(t, r.b, r.target(t), o))(t)
}

func (r *rpmRig) build(t *testing.T, o recipe.Options) v1.Image {
	t.Helper()
	return require.Value(r.b.Build(t.Context(), r.plan(t, o)))(t)
}

// changes says what packages a recipe installs: "name version" or "name old -> new".
func changes(pkgs []distros.Package) (all []string) {
	for _, p := range pkgs {
		if p.Replaces != "" {
			all = append(all, p.Name+" "+p.Replaces+" -> "+p.Version)
			continue
		}
		all = append(all, p.Name+" "+p.Version)
	}
	slices.Sort(all)
	return all
}

// installedRPMs returns "name epoch:version-release.arch" of each package in a database, sorted.
func installedRPMs(t *testing.T, tree *rootfs.Tree) (all []string) {
	t.Helper()
	for _, h := range require.Value(rpmdb.Read(tree.OpenFS()))(t).Packages() {
		m := require.Value(h.Metadata())(t)
		all = append(all, m.Name+" "+m.EVR.String()+"."+m.Arch)
	}
	slices.Sort(all)
	return all
}

// TestRPMImage: what is in the image is what rpm would have installed.
func TestRPMImage(t *testing.T) {
	t.Parallel()
	r := newRPMRig(t, "rocky9")
	img := r.build(t, recipe.Options{Epoch: 1750000000})
	tree := treeOf(t, img)
	want := []string{
		"bash 5.1.8-9.el9.x86_64", "coreutils 8.32-34.el9.x86_64", "cpp 11.4.1-3.el9.x86_64", "diffutils 3.7-12.el9.noarch", "elfutils-libelf-devel 0.190-2.el9.x86_64",
		"findutils 4.8-6.el9.x86_64", "gawk 5.1.0-6.el9.x86_64", "gcc 11.4.1-3.el9.x86_64", "glibc 2.34-100.el9.x86_64", "glibc-devel 2.34-100.el9.x86_64",
		"gpg-pubkey 0a1b2c3d-5e6f7a8b.", "kmod 28-9.el9.x86_64", "make 1:4.3-8.el9.x86_64", "rocky9-release 9.4-1.el9.noarch", "shared 1-1.el9.x86_64",
	}
	assert.Same(t, want, installedRPMs(t, tree))
	for name, there := range map[string]bool{
		"usr/lib64/libold.so.1": false, "usr/bin/mawk": false, "usr/share/licenses/mawk/LICENSE": false, "usr/share/shared.txt": true, "usr/bin/sh": true,
		"usr/bin/cc": true, "usr/bin/kmod": true, "usr/sbin/modprobe": true, "usr/include/stdio.h": true, "usr/share/licenses/gcc/LICENSE": true,
		"usr/share/doc/gcc/README": false, "usr/share/man/man1/gcc.1.gz": false, "usr/lib64/libcuda.so.1": true, "usr/lib/libcuda.so.1": true,
		"usr/share/man/man1/glibc.1.gz": false,
	} {
		assert.Equalf(t, there, tree.Exists(name), "%s: there is %v, want %v", name, !there, there)
	}
	if e, ok := tree.Lstat("lib64"); !ok || e.Target != "usr/lib64" || !strings.HasSuffix(read(t, tree, "usr/lib64/libc.so.6"), "new") {
		t.Errorf("lib64 or the C library: %+v", e)
	}
	members(t, layersOf(t, img)[1], func(h *tar.Header) {
		packaged := h.Typeflag == tar.TypeReg && !strings.Contains(h.Name, "/rpm/") && !strings.Contains(h.Name, ".wh.")
		if when := h.ModTime.Unix(); packaged && when != repotest.FileTime || !packaged && when != 1750000000 {
			t.Errorf("%s is of %v", h.Name, h.ModTime)
		}
		capability := h.PAXRecords["SCHILY.xattr.security.capability"]
		if (h.Name == "usr/bin/newuidmap") != (capability == "\x01\x00\x00\x02\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00") {
			t.Errorf("%s: capability %x", h.Name, capability)
		}
	})
	wantFit(t, r.b, img)
	checkInspection(t, r, img)
	checkRecord(t, tree)
}

func checkInspection(t *testing.T, r *rpmRig, img v1.Image) {
	t.Helper()
	i := require.Value(examiner(r.b).Inspect(t.Context(), "x", img))(t)
	has := func(p packages.Installed) bool { return slices.Contains(i.Packages, p) }
	if len(i.Packages) != 14 || i.System != "rocky9.4" || !has(packages.Installed{Name: "make", Version: "1:4.3-8.el9", Arch: "x86_64", Kind: "rpm", Source: "make", SourceVersion: "4.3-8.el9", Licence: "MIT"}) || !has(packages.Installed{
		Name: "diffutils", Version: "3.7-12.el9", Arch: "noarch", Kind: "rpm", Source: "diffutils", SourceVersion: "3.7-12.el9", Licence: "MIT",
	}) {
		t.Errorf("%s: %v", i.System, i.Packages)
	}
}

// checkRecord looks at what rpm -V and scanners read.
func checkRecord(t *testing.T, tree *rootfs.Tree) {
	t.Helper()
	db := require.Value(rpmdb.Read(tree.OpenFS()))(t)
	if db.Backend() != "sqlite" || !tree.Exists("var/lib/rpm/rpmdb.sqlite") {
		t.Errorf("a database of %s, not of sqlite in var/lib/rpm", db.Backend())
	}
	all := db.Packages()
	i := slices.IndexFunc(all, func(h *rpmfile.Header) bool { return h.Text(rpmfile.TagName) == "gcc" })
	if i < 0 {
		t.Fatal("no gcc")
	}
	gcc := all[i]
	m := require.Value(gcc.Metadata())(t)
	states := gcc.Binary(rpmfile.TagFileStates)
	if len(states) != len(m.Files) {
		t.Fatalf("%d states of %d files", len(states), len(m.Files))
	}
	for i, name := range m.Files {
		left := strings.HasPrefix(name, "/usr/share/doc/") || strings.HasPrefix(name, "/usr/share/man/")
		assert.Equalf(t, map[bool]byte{true: 2}[left], states[i], "%s has the state", name)
	}
	when, _ := gcc.Int(rpmfile.TagInstallTime)
	if colour, ok := gcc.Int(rpmfile.TagInstallColor); when != 1750000000 || colour != 3 || !ok || len(gcc.Binary(rpmfile.TagRSAHeader)) == 0 {
		t.Errorf("installed at %d, colour %d, signature %x", when, colour, gcc.Binary(rpmfile.TagRSAHeader))
	}
}

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
				assert.Equalf(t, false, r.SHA512 && (p.SHA256 != "" || len(p.SHA512) != 128) || r.Signed == (len(p.Keys) > 0), "%+v", p)
			}
			img := require.Value(r.b.Build(t.Context(), planned))(t)
			tree := treeOf(t, img)
			db, err := rpmdb.Read(tree.OpenFS())
			if err != nil || db.Backend() != c.kind || !tree.Exists(c.file) {
				t.Fatalf("%+v, %v", db, err)
			}
			all := installedRPMs(t, tree)
			if has := func(s string) bool { return slices.Contains(all, s) }; !has(c.compiler) || slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "mawk") || strings.HasPrefix(s, "glibc 2.34-60") }) {
				t.Errorf("%q", all)
			}
			for _, name := range append(c.gone, "usr/lib64/libold.so.1") {
				assert.Equalf(t, false, tree.Exists(name), "%s is still there", name)
			}
			assert.Equalf(t, true, tree.Exists("usr/bin/gcc") && tree.Exists("usr/bin/cc"), "no compiler by its usual names")
			wantFit(t, r.b, img)
		})
	}
}
