package treecopy

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/gate"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestMain runs the tests in a mount namespace of their own: their mounts are not visible outside.
func TestMain(m *testing.M) {
	const namespaced = "TREECOPY_TEST_NAMESPACE"
	if os.Getuid() == 0 && os.Getenv(namespaced) == "" {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), namespaced+"=1"))
		}
		fmt.Fprintln(os.Stderr, "start in a mount namespace:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Somebody writes to a layer at the same time: a file that differs from what the overlay showed is not
// linked.
func TestLinkOfWhatChanges(t *testing.T) {
	gate.Root(t, "it mounts")
	dir := t.TempDir()
	lower, dst := open(t, dir), open(t, t.TempDir())
	var shown unix.Stat_t
	for name, change := range map[string]func(file string){
		"written": func(file string) { // with the same size and time
			st := require.Value(os.Stat(file))(t)
			require.NoError(t, os.WriteFile(file, []byte("changed!"), 0o644))
			require.NoError(t, os.Chtimes(file, st.ModTime(), st.ModTime()))
		},
		"grown": func(file string) { require.NoError(t, os.Truncate(file, 1<<20)) },
		"replaced": func(file string) {
			testfile.Write(t, dir+"/new", "original")
			require.NoError(t, os.Rename(dir+"/new", file))
		},
		"mode": func(file string) { require.NoError(t, os.Chmod(file, 0o600)) },
		"a link": func(file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Symlink("/etc/passwd", file))
		},
		"gone": func(file string) { require.NoError(t, os.Remove(file)) },
	} {
		testfile.Write(t, dir+"/"+name, "original")
		require.NoError(t, unix.Stat(filepath.Join(dir, name), &shown))
		l := &Layers{metacopy: true}
		if l.find([]*os.File{lower}, name, &shown) == nil {
			t.Fatalf("%s: not found as it is", name)
		}
		time.Sleep(40 * time.Millisecond) // times of file systems have a limited resolution
		change(filepath.Join(dir, name))
		if l.find([]*os.File{lower}, name, &shown) != nil {
			t.Errorf("%s: found", name)
		}
		// Changed after it was found. A change of data with the same size and time cannot be detected; it could not
		// be detected a moment later either.
		if name != "written" && linkFile(lower, name, dst, name, &shown) {
			t.Errorf("%s: linked", name)
		}
		if _, err := os.Lstat(filepath.Join(dst.Name(), name)); name != "written" && err == nil {
			t.Errorf("%s: a name is left", name)
		}
	}
}

func TestMetacopyIsNotTaken(t *testing.T) {
	gate.Root(t, "it mounts")
	dir := t.TempDir()
	testfile.Write(t, dir+"/lib", "data")
	require.NoError(t, unix.Setxattr(filepath.Join(dir, "lib"), "trusted.overlay.metacopy", nil, 0))
	var shown unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(dir, "lib"), &shown))
	lowers := []*os.File{open(t, dir)}
	if (&Layers{metacopy: true}).find(lowers, "lib", &shown) != nil || (&Layers{}).find(lowers, "lib", &shown) == nil {
		t.Error("a file without its data was taken")
	}
}

func open(t *testing.T, dir string) *os.File {
	t.Helper()
	f := require.Value(os.Open(dir))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// A folder is read in its layer if no other layer has it.
func TestOnly(t *testing.T) {
	gate.Root(t, "it mounts")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"base", "top", "upper", "work", "merged"} {
		require.NoError(t, os.Mkdir(at(name), 0o755))
	}
	for _, name := range []string{"base/usr/lib/a", "top/usr/lib/b", "base/usr/share/one/sub/b", "base/usr/share/one/odd/c", "base/usr/bin/sh"} {
		testfile.Write(t, dir+"/"+name, name)
	}
	require.NoError(t, unix.Setxattr(at("base/usr/share/one/odd"), "trusted.overlay.opaque", []byte("y"), 0))
	options := fmt.Sprintf("lowerdir=%s:%s,upperdir=%s,workdir=%s", at("top"), at("base"), at("upper"), at("work"))
	require.NoError(t, unix.Mount("overlay", at("merged"), "overlay", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(at("merged"), unix.MNT_DETACH) })
	l := require.Value(openLayers("/proc/self", at("merged")))(t)
	defer l.Close()
	ask := func(path string) bool {
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(filepath.Join(at("merged"), path), &st))
		f := l.only(having(l.lowers, path), path, &st)
		if f != nil {
			f.Close()
		}
		return f != nil
	}
	for path, want := range map[string]bool{"usr": false, "usr/lib": false, "usr/share/one": true, "usr/share/one/odd": false} {
		if ask(path) != want {
			t.Errorf("%s is in one layer only: %v", path, !want)
		}
	}
	require.NoError(t, os.Chmod(at("base/usr/share/one"), 0o700)) // differs from what the overlay showed a moment ago
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(at("base/usr/bin"), &st))
	if l.only(having(l.lowers, "usr/share/one"), "usr/share/one", &st) != nil {
		t.Error("another folder than the overlay's was taken")
	}
	require.NoError(t, os.Remove(at("merged/usr/share/one/sub/b")))
	if ask("usr/share/one") {
		t.Error("the container changed it")
	}
}
