package rpmdb

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// system returns a system with packages, in a format.
func system(t testing.TB, kind string, headers ...*rpmfile.Header) fstest.MapFS {
	t.Helper()
	i := slices.IndexFunc(formats(), func(f format) bool { return f.backend == kind })
	d := &Database{folder: folders[1], format: formats()[i]}
	if kind == "bdb" {
		d.detail = 4096
	}
	changed, _, err := d.With(headers)
	require.NoError(t, err)
	return apply(fstest.MapFS{}, changed, nil)
}

func TestWith(t *testing.T) {
	t.Parallel()
	key := "gpg-pubkey 8483c65d-5ccc5b19"
	tests := []struct {
		name            string
		have, add, want []string
	}{
		{"new", []string{"a 1-1 x86_64"}, []string{"b 1-1 x86_64"}, []string{"a 1-1 x86_64", "b 1-1 x86_64"}},
		{"newer", []string{"a 1-1 x86_64", "b 1-1 x86_64"}, []string{"a 2-1 x86_64"}, []string{"b 1-1 x86_64", "a 2-1 x86_64"}},
		{"other architecture", []string{"a 1-1 x86_64"}, []string{"a 2-1 i686"}, []string{"a 1-1 x86_64", "a 2-1 i686"}},
		{"no longer noarch", []string{"a 1-1 noarch"}, []string{"a 2-1 x86_64"}, []string{"a 2-1 x86_64"}},
		{"now noarch", []string{"a 1-1 x86_64", "a 1-1 i686"}, []string{"a 2-1 noarch"}, []string{"a 2-1 noarch"}},
		{"kernel", []string{"kernel 1-1 x86_64"}, []string{"kernel 2-1 x86_64"}, []string{"kernel 1-1 x86_64", "kernel 2-1 x86_64"}},
		{"kernel again", []string{"kernel 1-1 x86_64"}, []string{"kernel 1-1 x86_64"}, []string{"kernel 1-1 x86_64"}},
		{"headers", []string{"kernel-64k-devel 1-1 aarch64"}, []string{"kernel-64k-devel 2-1 aarch64"}, []string{"kernel-64k-devel 1-1 aarch64", "kernel-64k-devel 2-1 aarch64"}},
		{"kernel's tools", []string{"kernel-tools 1-1 x86_64"}, []string{"kernel-tools 2-1 x86_64"}, []string{"kernel-tools 2-1 x86_64"}},
		{"modules", []string{"kmod 1-1 x86_64 installonlypkg(kernel-module)"}, []string{"kmod 2-1 x86_64 multiversion(kernel)"}, []string{"kmod 1-1 x86_64", "kmod 2-1 x86_64"}},
		{"other modules", []string{"kmod 1-1 x86_64 kmod(nvidia.ko)"}, []string{"kmod 2-1 x86_64 kmod(nvidia.ko)"}, []string{"kmod 2-1 x86_64"}},
		{"key", []string{key}, []string{"gpg-pubkey 1-1", key}, []string{"gpg-pubkey 1-1", key}},
		{"several", []string{"a 1-1 x86_64"}, []string{"a 2-1 x86_64", "a 3-1 x86_64"}, []string{"a 3-1 x86_64"}},
		{"into nothing", nil, []string{"a 1-1 x86_64"}, []string{"a 1-1 x86_64"}},
	}
	for _, kind := range []string{"bdb", "ndb", "sqlite"} {
		for _, test := range tests {
			t.Run(kind+" "+test.name, func(t *testing.T) {
				t.Parallel()
				all := func(list []string) (out []*rpmfile.Header) {
					for _, text := range list {
						out = append(out, made(t, text))
					}
					return out
				}
				base := system(t, kind, all(test.have)...)
				d := read(t, base)
				changed, removed, err := d.With(all(test.add))
				if err != nil || len(removed) > 0 {
					t.Fatal(removed, err)
				}
				again, _, err := d.With(all(test.add))
				if err != nil || !maps.EqualFunc(changed, again, bytes.Equal) {
					t.Errorf("a second run gives other bytes (%v)", err)
				}
				assert.Samef(t, names(all(test.have)), names(d.Packages()), "With changed its database")
				now := read(t, apply(base, changed, removed))
				assert.Same(t, test.want, names(now.Packages()))
				assert.Equalf(t, uint32(len(test.have)+len(test.add)), now.contents.Last, "last number")
			})
		}
	}
}

func TestWithRefuses(t *testing.T) {
	t.Parallel()
	d := read(t, system(t, "sqlite", made(t, "a 1-1 noarch")))
	full := *d
	full.contents.Last = MaxNumber
	for name, try := range map[string]func() error{
		"no name": func() error {
			_, _, err := d.With([]*rpmfile.Header{header(t, entry(rpmfile.TagVersion, "1"))})
			return err
		},
		"no number":     func() error { _, _, err := full.With([]*rpmfile.Header{made(t, "b 1-1 noarch")}); return err },
		"zero value":    func() error { _, _, err := d.With([]*rpmfile.Header{{}}); return err },
		"no folder":     func() error { _, err := Read(fstest.MapFS{"var/lib/rpm": {Data: []byte("x")}}); return err },
		"no database":   func() error { _, err := Read(fstest.MapFS{"var/lib/rpm/x": {}}); return notExist(err) },
		"empty file":    func() error { _, err := Read(rooted("Packages", nil)); return notExist(err) },
		"garbage":       func() error { _, err := Read(rooted("Packages", []byte("garbage"))); return err },
		"garbage ndb":   func() error { _, err := Read(rooted("Packages.db", []byte("garbage"))); return err },
		"garbage sqlit": func() error { _, err := Read(rooted(sqliteFile, []byte("garbage"))); return err },
	} {
		err := try()
		if err == nil || name != "no folder" && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, want ErrFormat", name, err)
		}
	}
}

// notExist maps the error for a missing database to one that the table expects.
func notExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrFormat) {
		return ErrFormat
	}
	return err
}

// TestPlaces reads systems with several folders and files.
func TestPlaces(t *testing.T) {
	t.Parallel()
	old := system(t, "bdb", made(t, "old 1-1 noarch"))["var/lib/rpm/Packages"]
	now := system(t, "ndb", made(t, "new 1-1 noarch"))["var/lib/rpm/Packages.db"]
	both := fstest.MapFS{
		"var/lib/rpm/Packages": old, "var/lib/rpm/Name": {Data: []byte("x")},
		"usr/lib/sysimage/rpm/Packages.db": now, "usr/lib/sysimage/rpm/rpmdb.sqlite": {}, // empty
		"usr/lib/sysimage/rpm/Basenames": {}, "usr/lib/sysimage/rpm/__db.001": {}, "usr/lib/sysimage/rpm/.rpm.lock": {},
		"usr/lib/sysimage/rpm/pubkeys/a.key": {},
	}
	d := read(t, both)
	if d.Backend() != "ndb" || d.folder != "usr/lib/sysimage/rpm" || names(d.Packages())[0] != "new 1-1 noarch" {
		t.Errorf("%s in %s: %v", d.Backend(), d.folder, names(d.Packages()))
	}
	changed, removed, err := d.With(nil)
	require.NoError(t, err)
	assert.Same(t, []string{"usr/lib/sysimage/rpm/Index.db", "usr/lib/sysimage/rpm/Packages.db"}, slices.Sorted(maps.Keys(changed)))
	assert.Same(t, []string{"usr/lib/sysimage/rpm/Basenames", "usr/lib/sysimage/rpm/__db.001", "usr/lib/sysimage/rpm/rpmdb.sqlite"}, removed)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	armoured := "-----BEGIN PGP PUBLIC KEY BLOCK-----\n...\n"
	described := func(name, text string) *rpmfile.Header {
		return header(t, entries(name+" 1-1", repotest.Entry{Tag: uint32(rpmfile.TagDescription), Type: uint32(rpmfile.TypeI18NString), Value: []string{text}})...)
	}
	d := read(t, system(t, "bdb", described("gpg-pubkey", armoured), described("other", armoured), described("gpg-pubkey2", "(none)")))
	assert.Same(t, [][]byte{[]byte(armoured)}, d.Keys())
}

func TestObsoletes(t *testing.T) {
	t.Parallel()
	obsoleting := func(name, version string, sense uint32) *rpmfile.Header {
		return header(t, entries("new 1-1 x86_64", entry(rpmfile.TagObsoleteName, []string{name}),
			entry(rpmfile.TagObsoleteVersion, []string{version}), entry(rpmfile.TagObsoleteFlags, []uint32{sense}))...)
	}
	const less = 2 // RPMSENSE_LESS
	owning := func(text, provides string, files ...string) *rpmfile.Header {
		return header(t, entries(text, entry(rpmfile.TagProvideName, []string{provides}), entry(rpmfile.TagOldFileNames, files))...)
	}
	base := system(t, "sqlite", owning("old 1-1 x86_64", "old", "/old", "/both"), owning("other 1-1 x86_64", "old", "/other", "/both"))
	for _, test := range []struct {
		name     string
		add      []*rpmfile.Header
		replaced []string
	}{
		{"any version", []*rpmfile.Header{obsoleting("old", "", 0)}, []string{"old 1-1 x86_64"}},
		{"older", []*rpmfile.Header{obsoleting("old", "2-1", less)}, []string{"old 1-1 x86_64"}},
		{"not so old", []*rpmfile.Header{obsoleting("old", "1-1", less)}, []string{}},
		{"itself", []*rpmfile.Header{obsoleting("new", "", 0)}, []string{}},
		{"installed together", []*rpmfile.Header{made(t, "third 1-1 x86_64"), obsoleting("third", "", 0)}, []string{}},
		{"newer version", []*rpmfile.Header{made(t, "other 2-1 x86_64")}, []string{"other 1-1 x86_64"}},
	} {
		d := read(t, base)
		changed, _, err := d.With(test.add)
		require.NoError(t, err)
		now := names(read(t, apply(base, changed, nil)).Packages())
		replaced := slices.DeleteFunc(names(d.Packages()), func(n string) bool { return slices.Contains(now, n) })
		assert.Samef(t, test.replaced, replaced, "%s", test.name)
		var gone []string
		for _, name := range replaced {
			gone = append(gone, "/"+strings.Fields(name)[0])
		}
		assert.Samef(t, gone, require.Value(d.Gone(test.add))(t), "%s: files", test.name)
	}
}
