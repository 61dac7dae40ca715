package kbuild

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// newSet returns a set like those of Compile.
func newSet(t *testing.T, driver string, names ...string) *Set {
	t.Helper()
	dir := t.TempDir()
	s := &Set{Dir: dir, Key: Key{
		Driver: driver, Flavour: "open", Release: release, Arch: "amd64", Kernel: "build-id 12", Compiler: "gcc 12.2.0", Method: Method,
	}}
	for _, name := range names {
		path := testfile.Write(t, dir+"/"+name+".ko", kbuildtest.Module(strings.ReplaceAll(name, "-", "_"), driver, release))
		f := require.Value(readFile(name, path))(t)
		s.Modules = append(s.Modules, f)
	}
	return s
}

// grow makes the first module larger.
func grow(t *testing.T, s *Set, by int) {
	t.Helper()
	first := &s.Modules[0]
	content := require.Value(os.ReadFile(first.Path))(t)
	require.NoError(t, os.WriteFile(first.Path, append(content, make([]byte, by)...), 0o644))
	*first = require.Value(readFile(first.Name, first.Path))(t)
}

func TestCache(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := Cache{Dir: filepath.Join(t.TempDir(), "state/modules")}
	set := newSet(t, driver, "nvidia", "nvidia-uvm")
	grow(t, set, 3<<20) // it is read in several parts
	assert.ErrorIsf(t, assert.Err(c.Get(ctx, set.Key)), ErrMiss, "empty")
	assert.ErrorIsf(t, assert.Err(c.Find(ctx, func(Key) bool { return true })), ErrMiss, "empty")
	require.NoError(t, c.Prune(1))
	put := require.Value(c.Put(ctx, set))(t)
	assert.Same(t, []Key{set.Key}, c.Keys())
	require.NoError(t, os.RemoveAll(set.Dir))
	got := require.Value(c.Get(ctx, set.Key))(t)
	assert.Same(t, put, got)
	assert.Equalf(t, filepath.Join(c.Dir, set.Key.String()), got.Dir, "dir")
	for i, f := range got.Modules {
		if want := set.Modules[i]; f.SHA256 != want.SHA256 || f.Path != filepath.Join(got.Dir, f.Name+".ko") || f.Info.Version != want.Info.Version {
			t.Errorf("%+v", f)
		}
	}
	other := set.Key
	other.Kernel = "build-id 34"
	assert.ErrorIsf(t, assert.Err(c.Get(ctx, other)), ErrMiss, "other kernel")
	if names := list(t, c.Dir); len(names) != 1 {
		t.Errorf("in the cache: %q", names)
	}
}

func TestPutAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := Cache{Dir: t.TempDir()}
	require.Value(c.Put(ctx, newSet(t, driver, "nvidia")))(t)
	more := newSet(t, driver, "nvidia", "nvidia-peermem")
	put := require.Value(c.Put(ctx, more))(t)
	assert.Equalf(t, 2, len(put.Modules), "%+v", put)
	kept, err := c.Put(ctx, newSet(t, driver, "nvidia")) // the larger set stays
	require.NoError(t, err)
	got := require.Value(c.Get(ctx, more.Key))(t)
	if len(kept.Modules) != 2 || len(got.Modules) != 2 || len(list(t, c.Dir)) != 1 {
		t.Errorf("kept %+v, got %+v, %q", kept, got, list(t, c.Dir))
	}
}

func TestCacheDamage(t *testing.T) {
	t.Parallel()
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	for name, c := range map[string]struct {
		file string
		harm func([]byte) []byte // nil: the file goes
	}{
		"a bit":            {"nvidia.ko", func(b []byte) []byte { b[len(b)/2] ^= 4; return b }},
		"cut":              {"nvidia.ko", cut},
		"longer":           {"nvidia.ko", func(b []byte) []byte { return append(b, 0) }},
		"a module is gone": {"nvidia.ko", nil},
		"manifest cut":     {ManifestName, cut},
		"manifest changed": {ManifestName, func(b []byte) []byte { return []byte(strings.Replace(string(b), driver, "535.261.04", 1)) }},
		"manifest is gone": {ManifestName, nil},
		"manifest of others": {ManifestName, func([]byte) []byte {
			s := require.Value(Cache{Dir: t.TempDir()}.Put(t.Context(), newSet(t, "470.256.02", "nvidia")))(t)
			return require.Value(os.ReadFile(filepath.Join(s.Dir, ManifestName)))(t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cache, set := context.Background(), Cache{Dir: t.TempDir()}, newSet(t, driver, "nvidia")
			put := require.Value(cache.Put(ctx, set))(t)
			path := filepath.Join(put.Dir, c.file)
			content := require.Value(os.ReadFile(path))(t)
			require.NoError(t, os.Remove(path))
			if c.harm != nil {
				require.NoError(t, os.WriteFile(path, c.harm(content), 0o644))
			}
			_, err := cache.Get(ctx, set.Key)
			bad := require.ErrorAs[*CorruptError](t, err)
			assert.Equalf(t, put.Dir, bad.Dir, "where it is")
			_, err = cache.Find(ctx, func(Key) bool { return true })
			assert.ErrorIs(t, err, ErrMiss)
			require.NoError(t, cache.Prune(0, put.Modules[0].Path))
			require.NoErrorf(t, assert.Err(os.Stat(put.Dir)), "a set that is needed, of which this program cannot read all")
			require.Value(cache.Put(ctx, set))(t)
			require.Value(cache.Get(ctx, set.Key))(t)
			require.NoError(t, cache.Prune(1))
			assert.Equalf(t, 1, len(list(t, cache.Dir)), "entries after Prune")
		})
	}
}

func TestFindAndPrune(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := Cache{Dir: t.TempDir()}
	begin := time.Now().Add(-time.Hour)
	for i, version := range []string{"470.1", "470.2", "535.1", "535.2"} {
		s := require.Value(c.Put(ctx, newSet(t, version, "nvidia")))(t)
		at := begin.Add(time.Duration(i) * time.Minute)
		require.NoError(t, os.Chtimes(s.Dir, at, at))
	}
	branch := func(b string) func(Key) bool { return func(k Key) bool { return strings.HasPrefix(k.Driver, b) } }
	find := func(b string) string {
		s, err := c.Find(ctx, branch(b))
		if err != nil {
			return err.Error()
		}
		return s.Key.Driver
	}
	assert.Equalf(t, "470.2", find("470"), "found")
	s := require.Value(c.Find(ctx, branch("535")))(t)
	require.NoError(t, os.WriteFile(s.Modules[0].Path, []byte("harm"), 0o644))
	if got := find("535"); got != "535.1" { // the damaged one is skipped
		t.Errorf("found %s", got)
	}
	testfile.Write(t, c.Dir+"/"+tempPrefix+"left/nvidia.ko", "")
	require.NoError(t, c.Prune(3))
	assert.Equalf(t, ErrMiss.Error(), find("470.1"), "found")
	if got := find("470"); got != "470.2" { // the most recently used
		t.Errorf("found %s", got)
	}
	if names := list(t, c.Dir); len(names) != 3 { // the damaged one, too
		t.Errorf("after Prune: %q", names)
	}
	require.NoError(t, c.Prune(0, s.Modules[0].Path, require.Value(c.Find(ctx, branch("470")))(t).Modules[0].Path))
	assert.Equalf(t, "470.2", find("470"), "needed")
	require.NoError(t, c.Prune(0, filepath.Dir(c.Dir)))
	assert.Equalf(t, 2, len(list(t, c.Dir)), "needed, one of them damaged")
}

func TestPutErrors(t *testing.T) {
	t.Parallel()
	c := Cache{Dir: filepath.Join(t.TempDir(), "modules")}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context //nolint:containedctx // a row of the table
		change func(*Set)
		want   string
	}{
		{"cancelled", cancelled, func(*Set) {}, "context canceled"},
		{"empty", context.Background(), func(s *Set) { s.Modules = nil }, "a set of 0 modules"},
		{"changed meanwhile", context.Background(), func(s *Set) { s.Modules[0].SHA256 = strings.Repeat("0", 64) }, "has changed since it was made"},
		{"a name that is a path", context.Background(), func(s *Set) { s.Modules[0].Name = "../../x" }, "is no name"},
		{"a driver that is a path", context.Background(), func(s *Set) { s.Key.Driver = "../x" }, "is no driver"},
		{"a flavour that is a path", context.Background(), func(s *Set) { s.Key.Flavour = "/" }, "is no flavour"},
		{"gone", context.Background(), func(s *Set) { s.Modules[0].Path += "x" }, "no such file"},
	} {
		s := newSet(t, driver, "nvidia")
		tt.change(s)
		assert.ErrorContainsf(t, assert.Err(c.Put(tt.ctx, s)), tt.want, "%s", tt.name)
		if names := list(t, c.Dir); len(names) != 0 {
			t.Errorf("%s: left %q", tt.name, names)
		}
	}
}

// TestFullDisk fills a small file system that only this process sees.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	tool.AsRoot(t, "it mounts a small file system")
	dir := os.Getenv("BUILD_TEST_FULL")
	if dir == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), "BUILD_TEST_FULL="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	require.NoError(t, unix.Mount("small", dir, "tmpfs", 0, "size=64k"))
	set := newSet(t, driver, "nvidia")
	grow(t, set, 100<<10)
	c := Cache{Dir: filepath.Join(dir, "modules")}
	assert.ErrorIsf(t, assert.Err(c.Put(context.Background(), set)), unix.ENOSPC, "Put")
	if names := list(t, c.Dir); len(names) != 0 {
		t.Errorf("Put left %q", names)
	}
	b := newBench(t, goodMake)
	testfile.Write(t, b.job.Source+"/nvidia/nv-kernel.o_binary", string(make([]byte, 100<<10)))
	b.job.Work = dir
	assert.ErrorIsf(t, assert.Err(Compile(context.Background(), b.job)), unix.ENOSPC, "Compile")
	if left, _ := filepath.Glob(filepath.Join(dir, scratch, "*")); len(left) > 0 {
		t.Errorf("Compile left %q", left)
	}
}

// A cache in an image cannot be written but works for reading.
func TestReadOnlyCache(t *testing.T) {
	t.Parallel()
	c, set := Cache{Dir: t.TempDir()}, newSet(t, driver, "nvidia")
	require.Value(c.Put(t.Context(), set))(t)
	require.NoError(t, os.Chmod(c.Dir, 0o555)) // root can write nevertheless; the test then repeats the usual case
	t.Cleanup(func() { os.Chmod(c.Dir, 0o755) })
	require.Value(c.Get(t.Context(), set.Key))(t)
}

func FuzzManifest(f *testing.F) {
	m := &manifest{Schema: manifestSchema, Key: Key{Driver: "1", Flavour: "open", Release: "6"}, Modules: []manifestModule{{Name: "nvidia", Size: 1, SHA256: strings.Repeat("a", 64)}}}
	raw := require.Value(m.seal())(f)
	f.Add(raw)
	f.Add([]byte(`{"sha256":"","manifest":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseManifest(raw)
		if err != nil {
			if _, ok := errors.AsType[*CorruptError](err); !ok {
				t.Errorf("%T", err)
			}
			return
		}
		for _, file := range m.set("/cache").Modules {
			assert.Equalf(t, "/cache", filepath.Dir(file.Path), "path %s", file.Path)
		}
	})
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
