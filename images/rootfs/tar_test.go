package rootfs

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func names(t testing.TB, layer []byte) []string {
	t.Helper()
	var list []string
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		list = append(list, h.Name)
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	first := []tar.Header{dir("./"), dir("a/"), file("a/f", "1"), file("a/g", "2"), symlink("l", "a/f"), hardlink("h", "a/f"), dir("d/"), file("d/x", "3"), file("d/y", "4")}
	for name, c := range map[string]struct {
		second []tar.Header
		want   []string
	}{
		"nothing":          {nil, []string{"a/", "a/f = 1", "a/g = 2", "d/", "d/x = 3", "d/y = 4", "h = 1", "l -> a/f"}},
		"whiteout file":    {[]tar.Header{file("a/.wh.f", "")}, []string{"a/", "a/g = 2", "d/", "d/x = 3", "d/y = 4", "h = 1", "l -> a/f"}},
		"whiteout dir":     {[]tar.Header{file(".wh.d", ""), file(".wh.a", "")}, []string{"h = 1", "l -> a/f"}},
		"whiteout nothing": {[]tar.Header{file("none/.wh.x", ""), file(".wh.d", ""), file(".wh.a", "")}, []string{"h = 1", "l -> a/f"}},
		"opaque":           {[]tar.Header{dir("d/"), file("d/.wh..wh..opq", ""), file("d/new", "5"), file(".wh.a", "")}, []string{"d/", "d/new = 5", "h = 1", "l -> a/f"}},
		"a marker hides nothing of its own layer": {[]tar.Header{file("d/x", "5"), file("d/.wh.x", ""), file("d/.wh.y", ""), file(".wh.a", "")},
			[]string{"d/", "d/x = 5", "h = 1", "l -> a/f"}},
		"nor does that of a folder": {[]tar.Header{file("d/new/z", "5"), file(".wh.d", ""), file(".wh.a", "")}, []string{"d/new/z = 5", "h = 1", "l -> a/f"}},
		"nor an opaque marker":      {[]tar.Header{file("d/new", "5"), file("d/.wh..wh..opq", ""), file(".wh.a", "")}, []string{"d/", "d/new = 5", "h = 1", "l -> a/f"}},
		"file over dir":             {[]tar.Header{file("d", "6"), file(".wh.a", "")}, []string{"d = 6", "h = 1", "l -> a/f"}},
		"link over dir":             {[]tar.Header{symlink("d", "a"), file(".wh.a", "")}, []string{"d -> a", "h = 1", "l -> a/f"}},
		"dir over file":             {[]tar.Header{dir("l"), file("l/x", "7"), file(".wh.a", ""), file(".wh.d", "")}, []string{"h = 1", "l/", "l/x = 7"}},
		"devices":                   {[]tar.Header{device("dev/null"), device("h"), file(".wh.a", ""), file(".wh.d", "")}, []string{"dev/null is char device 1,3", "h is char device 1,3", "l -> a/f"}},
		"absolute names":            {[]tar.Header{file("/.wh.a", ""), file("/.wh.d", ""), file("/n", "8"), hardlink("/m", "/n")}, []string{"h = 1", "l -> a/f", "m = 8", "n = 8"}},
	} {
		got := show(t, applied(t, newSpool(t), nil, tarOf(t, first...), tarOf(t, c.second...)))
		assert.Samef(t, c.want, got, "%s", name)
	}
}

func TestApplyHostile(t *testing.T) {
	t.Parallel()
	huge := tarOf(t, file("a", "1"))
	copy(huge[124:136], "77777777777\x00") // 8 GiB announced, 1 byte present
	fix(huge)
	for name, c := range map[string]struct {
		layer []byte
		why   string
	}{
		"escape":               {tarOf(t, file("../x", "1")), "unsafe path"},
		"escape inside":        {tarOf(t, file("a/../../x", "1")), "unsafe path"},
		"escape by link":       {tarOf(t, hardlink("x", "../../etc/shadow")), "unsafe path"},
		"hard link to missing": {tarOf(t, hardlink("x", "y")), "which is not there"},
		"through a file":       {tarOf(t, file("a", "1"), file("a/b", "1")), "no directory"},
		"through a link":       {tarOf(t, file("f", ""), symlink("a", "/f"), file("a/b", "1")), "no directory"},
		"through a loop":       {tarOf(t, symlink("a", "b"), symlink("b", "a"), file("a/b", "1")), "too many links"},
		"hard link to folder":  {tarOf(t, dir("d/"), hardlink("x", "d")), "which is not there"},
		"whiteout as a folder": {tarOf(t, file(".wh.a/b", "1")), "form of a whiteout"},
		"sparse":               {tarOf(t, tar.Header{Typeflag: tar.TypeGNUSparse, Name: "x"}), ""},
		"whiteout of the root": {tarOf(t, file(".wh..", "")), ""},
		"whiteout of parent":   {tarOf(t, file("a/.wh...", "")), "unsafe path"},
		"size":                 {huge, "unexpected EOF"},
		"garbage":              {bytes.Repeat([]byte("x"), 1024), "invalid tar header"},
		"truncated":            {tarOf(t, file("a", strings.Repeat("1", 4000)))[:2000], "unexpected EOF"},
	} {
		tree := New(newSpool(t), nil)
		err := tree.Apply(context.Background(), bytes.NewReader(c.layer), nil)
		if err == nil || !strings.Contains(err.Error(), c.why) || !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsafePath) {
			t.Errorf("%s: %v, want %q, of a kind that says that the content is wrong", name, err, c.why)
		}
	}
}

// TestApplyThroughLinks: links of the layers below are followed in the folders of a name, inside the tree
// only. The last part of a name is replaced, as containerd does it.
func TestApplyThroughLinks(t *testing.T) {
	t.Parallel()
	merged := []tar.Header{dir("usr/lib/"), file("usr/lib/old", "1"), symlink("lib", "usr/lib"), symlink("up", "../../../../etc"), symlink("gone", "/srv/none")}
	for name, c := range map[string]struct {
		second []tar.Header
		want   []string
	}{
		"file":            {[]tar.Header{file("lib/x", "2")}, []string{"usr/lib/x = 2"}},
		"folder below":    {[]tar.Header{dir("lib/d/"), file("lib/d/x", "2")}, []string{"usr/lib/d/", "usr/lib/d/x = 2"}},
		"folder":          {[]tar.Header{dir("lib/"), file("lib/x", "2")}, []string{"-lib", "lib/", "lib/x = 2"}},
		"link":            {[]tar.Header{symlink("lib/l", "old"), hardlink("lib/h", "lib/old")}, []string{"usr/lib/h = 1", "usr/lib/l -> old"}},
		"whiteout":        {[]tar.Header{file("lib/.wh.old", "")}, []string{"-usr/lib/old"}},
		"opaque":          {[]tar.Header{file("lib/.wh..wh..opq", ""), file("lib/x", "2")}, []string{"-usr/lib/old", "usr/lib/x = 2"}},
		"out of the root": {[]tar.Header{file("up/passwd", "2")}, []string{"etc/passwd = 2"}},
		"leads nowhere":   {[]tar.Header{file("gone/x", "2")}, []string{"srv/none/x = 2"}},
		"AUFS":            {[]tar.Header{dir(".wh..wh.plnk/"), file(".wh..wh.plnk/1.2", "x"), file(".wh..wh.aufs", "")}, nil},
	} {
		before := show(t, applied(t, newSpool(t), nil, tarOf(t, merged...)))
		after := show(t, applied(t, newSpool(t), nil, tarOf(t, merged...), tarOf(t, c.second...)))
		assert.Samef(t, c.want, changes(before, after), "%s", name)
	}
}

// TestMarkersHaveNoOrder: where the markers stand in a layer changes nothing.
func TestMarkersHaveNoOrder(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{"a", "b", "c"})
	path := rapid.Custom(func(rt *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 1, 3).Draw(rt, "path"), "/") })
	rapid.Check(t, func(rt *rapid.T) {
		var lower, adds, markers []tar.Header
		for _, p := range rapid.SliceOfN(path, 0, 8).Draw(rt, "lower") {
			lower = append(lower, dir(p+"/d/"))
		}
		for _, p := range rapid.SliceOfN(path, 0, 5).Draw(rt, "adds") {
			adds = append(adds, file(p+"/f", "x"))
		}
		for _, p := range rapid.SliceOfN(path, 0, 5).Draw(rt, "markers") {
			markers = append(markers, file(p+rapid.SampledFrom([]string{"/.wh..wh..opq", "/.wh.a", "/.wh.d", "/.wh.f"}).Draw(rt, "marker"), ""))
		}
		first := show(t, applied(t, newSpool(t), nil, tarOf(t, lower...), tarOf(t, append(markers, adds...)...)))
		last := show(t, applied(t, newSpool(t), nil, tarOf(t, lower...), tarOf(t, append(adds, markers...)...)))
		for _, h := range adds {
			if !slices.Contains(last, h.Name+" = x") {
				rt.Fatalf("%s of the layer itself is hidden", h.Name)
			}
		}
		onlyFiles := func(line string) bool { return strings.HasSuffix(line, "/") }
		if d := cmp.Diff(slices.DeleteFunc(first, onlyFiles), slices.DeleteFunc(last, onlyFiles)); d != "" {
			rt.Fatal(d)
		}
	})
}

// changes returns the lines that are new, and with a minus the paths that are gone.
func changes(before, after []string) (all []string) {
	for _, line := range before {
		if !slices.Contains(after, line) {
			all = append(all, "-"+strings.Fields(line)[0])
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			all = append(all, line)
		}
	}
	return all
}

// TestNoWhiteouts: what is added to a layer cannot hide files of the layers below it, by any way of adding.
func TestNoWhiteouts(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	for _, name := range []string{".wh.x", "usr/.wh.x", "usr/.wh..wh..opq", ".wh.d/x", "a/.wh.d/x"} {
		for _, line := range []string{name + " = 1", name + " -> x", name + "/", name + " == f"} {
			tree := build(t, s, nil, "f = 1")
			assert.ErrorIsf(t, add(tree, line), ErrUnsafePath, "%s", line)
		}
		tree := build(t, s, nil, "f = 1")
		assert.ErrorIsf(t, tree.Move(tree.All()[0], name), ErrUnsafePath, "move to %s", name)
		assert.ErrorIsf(t, tree.Add(&tar.Header{Typeflag: tar.TypeReg, Name: name}, strings.NewReader("")), ErrUnsafePath, "%s", name)
	}
	require.NoError(t, add(build(t, s, nil), "usr/.whatever = 1"))
}

// fix recomputes the checksum of the first header.
func fix(b []byte) {
	copy(b[148:156], "        ")
	var sum int
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// TestSparse: a header may claim that a terabyte of zeros follows.
func TestSparse(t *testing.T) {
	t.Parallel()
	// archive/tar writes no sparse files, so the test writes the record under a name of the same length.
	map1 := "1\n0\n0\n" + strings.Repeat("\x00", 506)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o644, Size: int64(len(map1)), Format: tar.FormatPAX, PAXRecords: map[string]string{
		"XXX.sparse.major": "1", "XXX.sparse.minor": "0", "XXX.sparse.realsize": "1099511627776", "XXX.sparse.name": "a",
	}}
	require.NoError(t, w.WriteHeader(&h))
	require.Value(io.WriteString(w, map1))(t)
	require.NoError(t, w.Close())
	layer := bytes.ReplaceAll(b.Bytes(), []byte("XXX.sparse"), []byte("GNU.sparse"))
	layer = append(layer, make([]byte, 2048)...)
	tree := New(newSpool(t), nil)
	assert.ErrorIs(t, tree.Apply(context.Background(), bytes.NewReader(layer), nil), errSparse)
	for _, h := range []tar.Header{{Typeflag: tar.TypeReg, Name: "x", PAXRecords: map[string]string{"GNU.sparse.major": "1"}}, {Typeflag: tar.TypeGNUSparse, Name: "x"}} {
		assert.Errorf(t, tree.Add(&h, strings.NewReader("")), "a sparse file was added")
	}
}

func TestApplyElided(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	tree := applied(t, s, func(p string) bool { return strings.HasPrefix(p, "etc/") }, tarOf(t, file("etc/a", "1"), file("usr/b", "22")))
	assert.ErrorIsf(t, assert.Err(tree.ReadFile("usr/b")), errElided, "content that was not kept")
	again := applied(t, s, nil, written(t, tree))
	want := []string{"etc/", "etc/a = 1", "usr/", "usr/b (elided)"}
	assert.Same(t, want, show(t, again))
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tree := build(t, newSpool(t), nil, "a = 1")
	assert.ErrorIs(t, tree.WriteTar(ctx, io.Discard, time.Unix(0, 0)), context.Canceled)
	assert.ErrorIs(t, tree.Apply(ctx, bytes.NewReader(tarOf(t, file("x", ""))), nil), context.Canceled)
}

// failingWriter fails after some bytes.
type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestWriteTarFails(t *testing.T) {
	t.Parallel()
	tree := build(t, newSpool(t), nil, "a = "+strings.Repeat("1", 3000))
	for _, n := range []int{0, 1000, 2000} {
		assert.ErrorIsf(t, tree.WriteTar(context.Background(), &failingWriter{n}, time.Unix(0, 0)), io.ErrShortWrite, "after %d bytes", n)
	}
}

func TestWriteTar(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	lines := []string{"z/deep/er/file = 1", "a = 2", "b == a", "l -> z", "e/"}
	one := written(t, build(t, s, nil, lines...))
	other := written(t, build(t, newSpool(t), nil, lines[3], lines[4], lines[1], lines[2], lines[0]))
	if !bytes.Equal(one, other) {
		t.Error("the order of adding changes the bytes")
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(one)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		got = append(got, fmt.Sprintf("%c %s %o %s %d/%d %q %d", h.Typeflag, h.Name, h.Mode, h.Linkname, h.Uid, h.Gid, h.Uname, h.ModTime.Unix()))
	}
	want := []string{
		`0 a 644  0/0 "" 1700000000`, `1 b 644 a 0/0 "" 1700000000`, `5 e/ 755  0/0 "" 1700000000`, `2 l 777 z 0/0 "" 1700000000`,
		`5 z/ 755  0/0 "" 1700000000`, `5 z/deep/ 755  0/0 "" 1700000000`, `5 z/deep/er/ 755  0/0 "" 1700000000`, `0 z/deep/er/file 644  0/0 "" 1700000000`,
	}
	assert.Same(t, want, got)
	// Over a tree with z, z has no entry of its own: its mode there must not change.
	upper := build(t, s, build(t, s, nil, "z/"), "z/new/x = 1")
	assert.Same(t, []string{"z/new/", "z/new/x"}, names(t, written(t, upper)))
}

// TestRoundTrip: a tree that is written and read again is the same tree and gives the same bytes.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	part := rapid.SampledFrom([]string{"a", "b", "lib", "x y", "ü", strings.Repeat("n", 120)})
	rapid.Check(t, func(rt *rapid.T) {
		tree := New(s, nil)
		for range rapid.IntRange(0, 12).Draw(rt, "entries") {
			name := strings.Join(rapid.SliceOfN(part, 1, 3).Draw(rt, "name"), "/")
			mode := FileMode(rapid.Int64Range(0, 0o7777).Draw(rt, "mode"))
			switch rapid.IntRange(0, 4).Draw(rt, "kind") {
			case 0:
				_ = tree.AddDir(name, mode) // refused over a file, like the others
			case 1:
				_ = tree.AddLink(name, part.Draw(rt, "target"))
			case 2:
				_ = tree.AddHardLink(name, part.Draw(rt, "other"))
			case 3:
				_ = tree.Delete(name)
			default:
				content := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(rt, "content")
				_ = tree.AddFile(name, mode, int64(len(content)), bytes.NewReader(content))
			}
		}
		first := written(t, tree)
		again := applied(t, s, nil, first)
		var want []string
		for _, e := range tree.withParents() {
			want = append(want, showEntry(t, e)+" "+e.Mode.String())
		}
		var got []string
		for _, e := range again.All() {
			got = append(got, showEntry(t, e)+" "+e.Mode.String())
		}
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatal(d)
		}
		if !bytes.Equal(first, written(t, again)) {
			rt.Fatal("the bytes differ after reading")
		}
	})
}

// FuzzApply: for any layer, every entry is a clean path below directories, and the tree can be written and
// read.
func FuzzApply(f *testing.F) {
	f.Add(tarOf(f, dir("a/"), file("a/b", "1"), symlink("l", "/a"), hardlink("h", "a/b"), file("a/.wh.b", ""), file("a/.wh..wh..opq", "")))
	f.Add(tarOf(f, file("../x", "1")))
	f.Add(tarOf(f, file(".wh..", ""), device("null")))
	f.Add(tarOf(f, file("a", "1"), dir("a"), file("a/b", "2"), symlink("a", "x")))
	f.Add(tarOf(f, file(".wh..wh..opq", ""), file("x", "")))
	f.Add(tarOf(f, symlink("lib", "usr/lib"), file("lib/x", "1"), symlink("usr/lib/up", "../../.."), file("lib/up/etc/y", "2"), file("lib/.wh.x", "")))
	f.Fuzz(func(t *testing.T, layer []byte) {
		s := newSpool(t)
		tree := New(s, nil)
		if tree.Apply(context.Background(), bytes.NewReader(layer), nil) != nil {
			return
		}
		for _, e := range tree.All() {
			if p, err := Clean(e.Path); err != nil || p != e.Path || p == "." {
				t.Fatalf("path %q: %v", e.Path, err)
			}
			for up, ok := e, true; ok && strings.Contains(up.Path, "/"); {
				if up, ok = tree.Lstat(up.Path[:strings.LastIndex(up.Path, "/")]); !ok || up.Kind != Dir {
					t.Fatalf("%q has a parent that is no directory", e.Path)
				}
			}
		}
		var b bytes.Buffer
		if err := tree.WriteTar(context.Background(), &b, time.Unix(0, 0)); err != nil {
			return // names or owners that the format cannot store
		}
		again := New(s, nil)
		require.NoErrorf(t, again.Apply(context.Background(), &b, nil), "what was written cannot be read")
	})
}
