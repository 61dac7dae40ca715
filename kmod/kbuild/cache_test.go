package kbuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// newSet returns a set like those of Compile.
func newSet(t *testing.T, driver string, names ...string) *Set {
	t.Helper()
	dir := t.TempDir()
	s := &Set{Dir: dir, Key: Key{
		Driver: driver, Flavour: "open", Release: release, Arch: "amd64", Kernel: "build-id 12", Compiler: "gcc 12.2.0", Method: Method,
	}}
	for _, name := range names {
		path := write(t, dir, name+".ko", string(module(strings.ReplaceAll(name, "-", "_"), driver, release)))
		f, err := readFile(name, path)
		must(t, err)
		s.Modules = append(s.Modules, f)
	}
	return s
}

func TestCache(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := Cache{Dir: filepath.Join(t.TempDir(), "state/modules")}
	set := newSet(t, driver, "nvidia", "nvidia-uvm")
	if _, err := c.Get(ctx, set.Key); !errors.Is(err, ErrMiss) {
		t.Fatalf("empty: %v", err)
	}
	if _, err := c.Find(ctx, func(Key) bool { return true }); !errors.Is(err, ErrMiss) {
		t.Fatalf("empty: %v", err)
	}
	must(t, c.Prune(1))
	put, err := c.Put(ctx, set)
	must(t, err)
	must(t, os.RemoveAll(set.Dir))
	got, err := c.Get(ctx, set.Key)
	must(t, err)
	if d := cmp.Diff(put, got); d != "" {
		t.Error(d)
	}
	if got.Dir != filepath.Join(c.Dir, set.Key.String()) {
		t.Errorf("dir %s", got.Dir)
	}
	for i, f := range got.Modules {
		if want := set.Modules[i]; f.SHA256 != want.SHA256 || f.Path != filepath.Join(got.Dir, f.Name+".ko") || f.Info.Version != driver {
			t.Errorf("%+v", f)
		}
	}
	other := set.Key
	other.Kernel = "build-id 34"
	if _, err := c.Get(ctx, other); !errors.Is(err, ErrMiss) {
		t.Errorf("other kernel: %v", err)
	}
	if names := list(t, c.Dir); len(names) != 1 {
		t.Errorf("in the cache: %q", names)
	}
}

func TestPutAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := Cache{Dir: t.TempDir()}
	_, err := c.Put(ctx, newSet(t, driver, "nvidia"))
	must(t, err)
	more := newSet(t, driver, "nvidia", "nvidia-peermem")
	put, err := c.Put(ctx, more)
	must(t, err)
	if len(put.Modules) != 2 {
		t.Errorf("%+v", put)
	}
	kept, err := c.Put(ctx, newSet(t, driver, "nvidia")) // the larger set stays
	must(t, err)
	got, err := c.Get(ctx, more.Key)
	must(t, err)
	if len(kept.Modules) != 2 || len(got.Modules) != 2 || len(list(t, c.Dir)) != 1 {
		t.Errorf("kept %+v, got %+v, %q", kept, got, list(t, c.Dir))
	}
}

func TestCacheDamage(t *testing.T) {
	t.Parallel()
	edit := func(name string, change func([]byte) []byte) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			raw, err := os.ReadFile(filepath.Join(dir, name))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, name), change(raw), 0o644))
		}
	}
	for name, harm := range map[string]func(t *testing.T, dir string){
		"a bit":            edit("nvidia.ko", func(b []byte) []byte { b[len(b)/2] ^= 4; return b }),
		"cut":              edit("nvidia.ko", func(b []byte) []byte { return b[:len(b)-1] }),
		"longer":           edit("nvidia.ko", func(b []byte) []byte { return append(b, 0) }),
		"empty":            edit("nvidia.ko", func([]byte) []byte { return nil }),
		"a module is gone": func(t *testing.T, dir string) { t.Helper(); must(t, os.Remove(filepath.Join(dir, "nvidia.ko"))) },
		"manifest cut":     edit(ManifestName, func(b []byte) []byte { return b[:len(b)/2] }),
		"manifest empty":   edit(ManifestName, func([]byte) []byte { return nil }),
		"manifest changed": edit(ManifestName, func(b []byte) []byte { return []byte(strings.Replace(string(b), driver, "535.261.04", 1)) }),
		"manifest is gone": func(t *testing.T, dir string) { t.Helper(); must(t, os.Remove(filepath.Join(dir, ManifestName))) },
		"manifest of others": func(t *testing.T, dir string) {
			t.Helper()
			c := Cache{Dir: t.TempDir()}
			s, err := c.Put(context.Background(), newSet(t, "470.256.02", "nvidia"))
			must(t, err)
			must(t, os.Rename(filepath.Join(s.Dir, ManifestName), filepath.Join(dir, ManifestName)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			c := Cache{Dir: t.TempDir()}
			set := newSet(t, driver, "nvidia")
			put, err := c.Put(ctx, set)
			must(t, err)
			harm(t, put.Dir)
			_, err = c.Get(ctx, set.Key)
			bad, ok := errors.AsType[*CorruptError](err)
			if !ok || !isDir(bad.Dir) || !strings.HasPrefix(filepath.Base(bad.Dir), badPrefix) {
				t.Fatalf("error %v, want a CorruptError", err)
			}
			if _, err := c.Get(ctx, set.Key); !errors.Is(err, ErrMiss) {
				t.Errorf("then: %v", err)
			}
			if _, err := c.Put(ctx, set); err != nil {
				t.Error(err)
			}
			if _, err := c.Get(ctx, set.Key); err != nil {
				t.Error(err)
			}
			must(t, c.Prune(1))
			if names := list(t, c.Dir); len(names) != 1 {
				t.Errorf("after Prune: %q", names)
			}
		})
	}
}

func TestFindAndPrune(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := Cache{Dir: t.TempDir()}
	begin := time.Now().Add(-time.Hour)
	for i, version := range []string{"470.1", "470.2", "535.1", "535.2"} {
		s, err := c.Put(ctx, newSet(t, version, "nvidia"))
		must(t, err)
		at := begin.Add(time.Duration(i) * time.Minute)
		must(t, os.Chtimes(s.Dir, at, at))
	}
	branch := func(b string) func(Key) bool { return func(k Key) bool { return strings.HasPrefix(k.Driver, b) } }
	find := func(b string) string {
		s, err := c.Find(ctx, branch(b))
		if err != nil {
			return err.Error()
		}
		return s.Key.Driver
	}
	if got := find("470"); got != "470.2" {
		t.Errorf("found %s", got)
	}
	s, err := c.Find(ctx, branch("535"))
	must(t, err)
	must(t, os.WriteFile(s.Modules[0].Path, []byte("harm"), 0o644))
	if got := find("535"); got != "535.1" { // the damaged one is skipped
		t.Errorf("found %s", got)
	}
	write(t, c.Dir, tempPrefix+"left/nvidia.ko", "")
	must(t, c.Prune(2))
	if got := find("470.1"); got != ErrMiss.Error() {
		t.Errorf("found %s", got)
	}
	if got := find("470"); got != "470.2" { // the most recently used
		t.Errorf("found %s", got)
	}
	if names := list(t, c.Dir); len(names) != 2 {
		t.Errorf("after Prune: %q", names)
	}
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
		if _, err := c.Put(tt.ctx, s); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if names := list(t, c.Dir); len(names) != 0 {
			t.Errorf("%s: left %q", tt.name, names)
		}
	}
}

// TestFullDisk fills a small file system that only this process sees.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
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
	must(t, unix.Mount("small", dir, "tmpfs", 0, "size=64k"))
	set := newSet(t, driver, "nvidia")
	big, err := os.OpenFile(set.Modules[0].Path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = big.Write(make([]byte, 100<<10))
	must(t, err)
	must(t, big.Close())
	set.Modules[0], err = readFile("nvidia", set.Modules[0].Path)
	must(t, err)
	c := Cache{Dir: filepath.Join(dir, "modules")}
	if _, err := c.Put(context.Background(), set); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Put: %v", err)
	}
	if names := list(t, c.Dir); len(names) != 0 {
		t.Errorf("Put left %q", names)
	}
	b := newBench(t, goodMake)
	write(t, b.job.Source, "nvidia/nv-kernel.o_binary", string(make([]byte, 100<<10)))
	b.job.Work = dir
	if _, err := Compile(context.Background(), b.job); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Compile: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, scratch, "*")); len(left) > 0 {
		t.Errorf("Compile left %q", left)
	}
}

// A cache in an image cannot be written but works for reading.
func TestReadOnlyCache(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := Cache{Dir: t.TempDir()}
	set := newSet(t, driver, "nvidia")
	_, err := c.Put(ctx, set)
	must(t, err)
	must(t, os.Chmod(c.Dir, 0o555)) // root can write nevertheless; the test then repeats the usual case
	t.Cleanup(func() { os.Chmod(c.Dir, 0o755) })
	if _, err := c.Get(ctx, set.Key); err != nil {
		t.Error(err)
	}
}

func FuzzManifest(f *testing.F) {
	m := &manifest{Schema: manifestSchema, Key: Key{Driver: "1", Flavour: "open", Release: "6"}, Modules: []manifestModule{{Name: "nvidia", Size: 1, SHA256: strings.Repeat("a", 64)}}}
	raw, err := m.seal()
	must(f, err)
	f.Add(raw)
	f.Add([]byte(`{"sha256":"","manifest":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseManifest(raw)
		if err != nil {
			if _, ok := errors.AsType[*corruption](err); !ok {
				t.Errorf("%T", err)
			}
			return
		}
		for _, file := range m.set("/cache").Modules {
			if filepath.Dir(file.Path) != "/cache" {
				t.Errorf("path %s", file.Path)
			}
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

func BenchmarkGet(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, "nvidia.ko")
	must(b, os.WriteFile(path, append(module("nvidia", driver, release), make([]byte, 64<<20)...), 0o644))
	f, err := readFile("nvidia", path)
	must(b, err)
	c := Cache{Dir: filepath.Join(dir, "cache")}
	s, err := c.Put(context.Background(), &Set{Key: Key{Driver: "1", Flavour: "open", Release: "6"}, Modules: []File{f}})
	must(b, err)
	for b.Loop() {
		if _, err := c.Get(context.Background(), s.Key); err != nil {
			b.Fatal(err)
		}
	}
	fmt.Fprintln(b.Output(), s.Dir)
}

// TestCacheHas: Has reads the manifests and moves nothing aside.
func TestCacheHas(t *testing.T) {
	t.Parallel()
	c := Cache{Dir: t.TempDir()}
	if c.Has(func(Key) bool { return true }) {
		t.Error("an empty cache has something")
	}
	s, err := c.Put(t.Context(), newSet(t, driver, "nvidia"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.Dir, "nvidia.ko"), []byte("damaged"), 0o600))
	if !c.Has(func(k Key) bool { return k.Driver == driver }) || c.Has(func(k Key) bool { return k.Driver == "1" }) {
		t.Error("it has what it has not, or the reverse")
	}
	if _, err := os.Stat(s.Dir); err != nil {
		t.Errorf("the entry was moved: %v", err)
	}
}
