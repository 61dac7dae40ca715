package rootfs

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a": "a", "./a": "a", "a/": "a", "a//b": "a/b", "./": ".", ".": ".", "a/./b": "a/b", "...": "...", "a/..b": "a/..b",
		"": "", "/a": "", "..": "", "a/../b": "", "a/..": "", "a\x00b": "", strings.Repeat("x", 5000): "",
	} {
		got, err := Clean(name)
		assert.Equalf(t, want, got, "Clean(%.20q)", name)
		assert.Equalf(t, errors.Is(err, ErrUnsafePath), want == "", "Clean(%.20q): error %v", name, err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	lower := build(t, s, nil, "usr/lib/", "lib -> usr/lib", "abs -> /usr/lib", "usr/share/doc/", "gone -> usr/lib")
	tree := build(t, s, lower, "usr/lib/x/f = 1", "up -> ../../../usr", "usr/here -> .", "loop1 -> loop2", "loop2 -> loop1",
		"self -> self/x", "usr/back -> ../lib", "dangling -> no/such", "chain -> abs/x")
	require.NoError(t, tree.Delete("gone"))
	for name, want := range map[string]string{
		".": ".", "usr": "usr", "lib": "usr/lib", "lib/x/f": "usr/lib/x/f", "abs/x": "usr/lib/x", "up/lib": "usr/lib",
		"usr/here/here/here/lib": "usr/lib", "usr/back/x": "usr/lib/x", "dangling": "no/such", "dangling/a": "no/such/a",
		"chain/f": "usr/lib/x/f", "not/there": "not/there", "gone": "gone", "loop1": "", "loop2/a": "", "self": "",
	} {
		got, err := tree.Resolve(name)
		if got != want || (want == "") != (err != nil) {
			t.Errorf("Resolve(%s) = %q, %v; want %q", name, got, err, want)
		}
	}
	assert.Errorf(t, assert.Err(tree.Stat("loop1")), "Stat of a loop succeeded")
	if _, err := tree.Stat("/lib/x/f"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"dangling", "no", "../etc", "gone/x", "usr/lib/x/f/g"} {
		if tree.Exists(name) {
			t.Errorf("%s exists", name)
		}
	}
	assert.ErrorIsf(t, assert.Err(tree.Stat("no")), fs.ErrNotExist, "Stat of nothing")
}

// TestMergedUsr: a package's files in lib go to usr/lib of a base whose lib is a link, and the link stays.
func TestMergedUsr(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	base := build(t, s, nil, "usr/lib/libc.so = c", "lib -> usr/lib", "bin -> usr/bin", "usr/bin/sh = sh")
	tree := build(t, s, base, "lib/", "lib/modprobe.d/", "lib/modprobe.d/a = 1", "bin/kmod = k", "bin/lsmod -> kmod", "bin/kmod2 == bin/kmod")
	want := []string{"usr/bin/kmod = k", "usr/bin/kmod2 = k", "usr/bin/lsmod -> kmod", "usr/lib/modprobe.d/", "usr/lib/modprobe.d/a = 1"}
	assert.Same(t, want, show(t, tree))
	b, err := tree.ReadFile("lib/libc.so")
	if err != nil || string(b) != "c" {
		t.Errorf("a file of the base: %q, %v", b, err)
	}
	if err := tree.AddLink("usr/lib", "elsewhere"); err != nil || !tree.Exists("usr/lib/libc.so") {
		t.Errorf("a link over a directory hid it: %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for line, why := range map[string]string{
		"../x = 1":          "unsafe path",
		"/x = 1":            "unsafe path",
		"./ = 1":            "the root itself",
		"f/x = 1":           "no directory",
		"f/x/y/":            "no directory",
		"l -> ":             "unsafe path",
		"l -> a\x00b":       "unsafe path",
		"f/":                "a file of that name is there already",
		"d = 1":             "not empty",
		"h == nothing":      "not a file of the same archive",
		"h == d":            "not a file of the same archive",
		"h == ../x":         "unsafe path",
		"../h == f":         "unsafe path",
		"loop/x = 1":        "too many links",
		"../l -> x":         "unsafe path",
		"base/over/x = 1":   "no directory",
		"h == base/lower":   "not a file of the same archive",
		"loop/d/":           "too many links",
		"../d/":             "unsafe path",
		"h == loop/x":       "too many links",
		"file/../x = 1":     "unsafe path",
		"base/lower/x -> y": "no directory",
	} {
		s := newSpool(t)
		base := build(t, s, nil, "base/over = 1", "base/lower = 1")
		tree := build(t, s, base, "f = 1", "d/x = 1", "loop -> loop")
		err := add(tree, line)
		assert.ErrorContainsf(t, err, why, "%s", line)
	}
}

func TestAddFileWrongSize(t *testing.T) {
	t.Parallel()
	tree := New(newSpool(t), nil)
	assert.ErrorIsf(t, tree.AddFile("a", 0o644, 5, strings.NewReader("1234")), io.ErrUnexpectedEOF, "a short file")
	assert.Errorf(t, tree.AddFile("a", 0o644, -1, strings.NewReader("")), "a negative size was taken")
	assert.NoError(t, tree.AddFile("a", 0o644, 3, strings.NewReader("12345")))
	assert.Equal(t, "123", string(require.Value(tree.ReadFile("a"))(t)))
	if tree.Bytes() != 3 || !tree.Has("a") || tree.Has("b") {
		t.Errorf("%d bytes", tree.Bytes())
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	base := build(t, s, nil, "usr/lib/a = 1", "usr/lib/d/x = 1", "lib -> usr/lib", "keep = 1")
	tree := build(t, s, base, "lib/b = 2", "lib/d/y = 3")
	for _, name := range []string{"lib/a", "lib/b", "lib/d", "nothing"} {
		require.NoError(t, tree.Delete(name))
	}
	assert.Same(t, []string{"-usr/lib/a", "-usr/lib/d"}, show(t, tree))
	for _, name := range []string{"lib/a", "lib/b", "lib/d", "lib/d/x", "lib/d/y"} {
		if tree.Exists(name) {
			t.Errorf("%s is still there", name)
		}
	}
	assert.ErrorIs(t, tree.Delete("../x"), ErrUnsafePath)
	list, err := tree.ReadDir("usr/lib")
	if err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	assert.NoError(t, New(s, nil).Delete("x"))
	if got := names(t, written(t, tree)); !cmp.Equal(got, []string{"usr/lib/.wh.a", "usr/lib/.wh.d"}) {
		t.Errorf("layer: %q", got)
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	tree := New(newSpool(t), nil)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}, {Typeflag: tar.TypeDir, Name: "./d/", Mode: 0o1777},
		{Typeflag: tar.TypeReg, Name: "./d/f", Mode: 0o4755, Size: 2, Uid: 3, Gid: 4},
		{Typeflag: tar.TypeSymlink, Name: "./d/l", Linkname: "f"}, {Typeflag: tar.TypeLink, Name: "./d/h", Linkname: "./d/f"},
	} {
		assert.NoErrorf(t, tree.Add(&h, strings.NewReader("ab")), "%s", h.Name)
	}
	assert.Same(t, []string{"d/", "d/f = ab", "d/h = ab", "d/l -> f"}, show(t, tree))
	e, _ := tree.Lstat("d/f")
	if e.UID != 3 || e.GID != 4 || e.Mode != 0o755|fs.ModeSetuid {
		t.Errorf("%+v", e)
	}
	for _, h := range []tar.Header{device("dev/null"), {Typeflag: tar.TypeFifo, Name: "p"}, {Typeflag: tar.TypeReg, Name: "../x"}} {
		assert.ErrorIsf(t, tree.Add(&h, strings.NewReader("")), ErrUnsafePath, "%s", h.Name)
	}
}

func TestFS(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	base := build(t, s, nil, "etc/os-release = ID=x", "usr/lib/a = 1")
	tree := build(t, s, base, "etc/apt/sources.list = deb", "usr/lib/b = 22", "empty/")
	require.NoError(t, tree.AddFile("usr/lib/zero", 0o600, 0, strings.NewReader("")))
	assert.NoError(t, fstest.TestFS(tree.OpenFS(), "etc/os-release", "etc/apt/sources.list", "usr/lib/a", "usr/lib/b", "usr/lib/zero"))
	require.NoError(t, tree.AddLink("link", "usr/lib"))
	fsys := tree.OpenFS()
	assert.Equal(t, "22", string(require.Value(fs.ReadFile(fsys, "link/b"))(t)))
	for _, name := range []string{"/abs", "../x", "none", "usr/lib/a/b"} {
		assert.Errorf(t, assert.Err(fsys.Open(name)), "%s was opened", name)
	}
	assert.Errorf(t, assert.Err(tree.ReadDir("usr/lib/a")), "a file was read as a directory")
	assert.Errorf(t, assert.Err(tree.ReadFile("usr/lib")), "a directory was read as a file")
	list, err := fs.ReadDir(fsys, ".")
	if err != nil || len(list) != 4 || list[2].Type() != fs.ModeSymlink {
		t.Errorf("%v, %v", list, err)
	}
}
