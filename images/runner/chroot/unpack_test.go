package chroot

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/runnertest"
	"github.com/driver-container/driver-container/images/runner"
)

// unpacked unpacks layers beside a file that must not change, and lists the result.
func unpacked(t testing.TB, layers ...v1.Layer) (files []string, root string, err error) {
	t.Helper()
	top := t.TempDir()
	root = filepath.Join(top, "root")
	require.NoError(t, errors.Join(os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(top, "outside"), []byte("outside"), 0o600)))
	_, err = unpack(context.Background(), root, runner.Step{Layers: layers, Output: "/out"})
	files = listed(t, root)
	if got := listed(t, top); len(got) != len(files)+2 || got[0] != "outside = outside" {
		t.Fatalf("outside of the root: %q", got)
	}
	return files, root, err
}

func listed(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case d.IsDir():
			name += "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			name += " -> " + to
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			name += " = " + string(b)
		default:
			name += " " + d.Type().String()
		}
		list = append(list, name)
		return nil
	}))
	slices.Sort(list)
	return list
}

// TestEscapes: links of lower layers that lead out of the folder on the machine lead into the root, as in a
// chroot.
func TestEscapes(t *testing.T) {
	t.Parallel()
	const abs, up = "abs -> /", "up -> ../../../../../../../.."
	for what, c := range map[string]struct{ layers, want []string }{
		"file through a link":    {[]string{abs, up, "|", "abs/a/x = 1", "up/b/y = 2"}, []string{abs, up, "a/", "a/x = 1", "b/", "b/y = 2"}},
		"whiteout":               {[]string{up, "x = 1", "|", "up/.wh.x = ", "up/.wh.outside = "}, []string{up}},
		"opaque":                 {[]string{"d/", "d/up -> ../..", "x = 1", "|", "d/up/.wh..wh..opq = ", "y = 2"}, []string{"y = 2"}},
		"hard link":              {[]string{up, "x = 1", "y == up/x", "up/z == x"}, []string{up, "x = 1", "y = 1", "z = 1"}},
		"hard link of a link":    {[]string{up, "z == up", "|", "z/x = 1"}, []string{up, "x = 1", "z -> ../../../../../../../.."}},
		"replaced folder":        {[]string{"d/", "d/x = 1", "|", "d -> /", "d/y = 2"}, []string{"d -> /", "y = 2"}},
		"replaced link":          {[]string{"d -> /", "|", "d/", "d/y = 2"}, []string{"d/", "d/y = 2"}},
		"file over a link":       {[]string{"f -> ../outside", "|", "f = 1"}, []string{"f = 1"}},
		"mount points":           {[]string{"proc -> /etc", "dev -> ../..", "tmp = x", "sys -> .."}, nil},
		"output":                 {[]string{"out -> ../.."}, nil},
		"absolute names":         {[]string{"/x = 1", "//y = 2", "./z = 3"}, []string{"x = 1", "y = 2", "z = 3"}},
		"whiteout of this layer": {[]string{"x = old", "|", "x = new", ".wh.x = "}, []string{"x = new"}},
		"late opaque":            {[]string{"d/", "d/old = 1", "d/s/", "d/s/old = 1", "|", "d/s/new = 2", "d/.wh..wh..opq = "}, []string{"d/", "d/s/", "d/s/new = 2"}},
		"parents made":           {[]string{"a/b/c = 1"}, []string{"a/", "a/b/", "a/b/c = 1"}},
	} {
		files, _, err := unpacked(t, layers(t, c.layers)...)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		want := append([]string{"dev/", "out/", "proc/", "sys/", "tmp/"}, c.want...)
		slices.Sort(want)
		assert.Samef(t, want, files, "%s", what)
	}
}

// layers makes one layer of the lines up to each bar.
func layers(t testing.TB, lines []string) (list []v1.Layer) {
	t.Helper()
	for {
		i := slices.Index(lines, "|")
		if i < 0 {
			return append(list, runnertest.Layer(t, lines...))
		}
		list, lines = append(list, runnertest.Layer(t, lines[:i]...)), lines[i+1:]
	}
}

func TestRefusedLayers(t *testing.T) {
	t.Parallel()
	for what, lines := range map[string][]string{
		"above the root":       {"../outside = gone"},
		"above, in the middle": {"a/../../outside = gone"},
		"loop":                 {"a -> b", "b -> a", "a/x = 1"},
		"through a file":       {"f = 1", "f/x = 1"},
		"hard link outside":    {"x == ../outside"},
		"hard link to nothing": {"x == y"},
		"hard link to folder":  {"d/", "x == d"},
		"whiteout of ..":       {"d/", "d/.wh... = "},
		"whiteout of nothing":  {".wh. = "},
	} {
		if files, _, err := unpacked(t, layers(t, lines)...); err == nil {
			t.Errorf("%s: %q", what, files)
		}
	}
}

func TestOutputUnderLink(t *testing.T) {
	t.Parallel()
	s := runner.Step{Layers: layers(t, []string{"var/", "var/tmp -> ../tmp"}), Output: "/var/tmp/out"}
	assert.ErrorContainsf(t, assert.Err(unpack(t.Context(), t.TempDir(), s)), "/tmp/out", "an output that a mount covers")
}

// TestMembers: modes, times, and members that do not belong in a root.
func TestMembers(t *testing.T) {
	t.Parallel()
	when := time.Date(2023, 4, 5, 6, 7, 8, 0, time.UTC)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "suid", Mode: 0o4755, Uid: 7, Gid: 7, ModTime: when},
		{Typeflag: tar.TypeReg, Name: "secret", Mode: 0, ModTime: when}, {Typeflag: tar.TypeDir, Name: "ro/", Mode: 0o555},
		{Typeflag: tar.TypeReg, Name: "ro/x", Mode: 0o444, ModTime: when}, {Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3},
		{Typeflag: tar.TypeBlock, Name: "sda", Devmajor: 8}, {Typeflag: tar.TypeFifo, Name: "fifo"}, {Typeflag: tar.TypeDir, Name: "./"},
	} {
		require.NoError(t, w.WriteHeader(&h))
	}
	require.NoError(t, w.Close())
	files, root, err := unpacked(t, runnertest.TarLayer(t, b.Bytes()))
	require.NoError(t, err)
	assert.Same(t, []string{"dev/", "out/", "proc/", "ro/", "ro/x = ", "secret = ", "suid = ", "sys/", "tmp/"}, files)
	for name, mode := range map[string]fs.FileMode{"suid": 0o755, "secret": 0o600, "ro": 0o755 | fs.ModeDir, "ro/x": 0o644} {
		info := require.Value(os.Stat(filepath.Join(root, name)))(t)
		if info.Mode() != mode || info.Mode().IsRegular() && !info.ModTime().Equal(when) {
			t.Errorf("%s: %v %v", name, info.Mode(), info.ModTime())
		}
	}
}

// FuzzUnpack: no layer changes anything outside of the root.
func FuzzUnpack(f *testing.F) {
	for _, lines := range [][]string{
		{"a/b = 1", "l -> /", "l/x = 2"}, {"../x = 1"}, {"a -> ..", "a/outside = 1"}, {"x == ../outside"}, {"d/.wh..wh..opq = "}, {".wh.x = "},
	} {
		f.Add(runnertest.Tar(f, lines...), runnertest.Tar(f, "l/.wh.x = ", "a/b/c = 1"))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		unpacked(t, runnertest.TarLayer(t, one), runnertest.TarLayer(t, two))
	})
}
