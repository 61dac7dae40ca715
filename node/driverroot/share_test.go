package driverroot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const (
	capability = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	testLib    = "usr/lib/x86_64-linux-gnu/"
)

var big = strings.Repeat("0123456789abcdef", 16<<10) // as large as files are that are always shared

// layered is a Root whose image is an overlay of two layers below dir, with the storage in the same file
// system. The test's own process stands for process 1 of the host.
func layered(t *testing.T, dir string) (r *Root, base, upper string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"base", "driver", "upper", "work", "merged"} {
		require.NoError(t, os.MkdirAll(at(name), 0o755))
	}
	image(t, at("base"))
	testfile.WriteMode(t, at("base")+"/usr/bin/big", big, 0o755)
	testfile.WriteMode(t, at("base")+"/usr/bin/script", "#!/bin/sh", 0o755)
	testfile.WriteMode(t, at("base")+"/usr/bin/su", big, 0o4755)
	require.NoError(t, unix.Chmod(at("base/usr/bin/su"), 0o4755))
	testfile.WriteMode(t, at("base")+"/usr/bin/ping", big, 0o755)
	require.NoError(t, unix.Setxattr(at("base/usr/bin/ping"), "security.capability", []byte(capability), 0))
	testfile.Write(t, at("base")+"/etc/big", big)
	testfile.Write(t, at("base")+"/usr/src/big", big)
	// usr/share/one is in this layer only.
	for _, name := range []string{"usr/share/one/a", "usr/share/one/sub/b", "usr/share/one/odd/c"} {
		testfile.Write(t, at("base")+"/"+name, name)
	}
	require.NoError(t, unix.Setxattr(at("base/usr/share/one/odd"), "trusted.overlay.opaque", []byte("y"), 0))
	require.NoError(t, unix.Mknod(at("base/usr/share/one/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	for _, name := range []string{"open", "hidden", "edited", "removed", "touched"} {
		testfile.Write(t, at("base")+"/"+testLib+name, "base "+big)
	}
	testfile.Write(t, at("driver")+"/"+testLib+"hidden", "driver "+big)
	options := fmt.Sprintf("lowerdir=%s:%s,upperdir=%s,workdir=%s", at("driver"), at("base"), at("upper"), at("work"))
	require.NoError(t, unix.Mount("overlay", at("merged"), "overlay", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(at("merged"), unix.MNT_DETACH) })
	r = &Root{Image: at("merged"), Storage: at("storage"), ID: testID, Version: testVersion, init: "/proc/self",
		Target: filepath.Join(sharedRun(t), "driver"), Log: logtest.New(t)}
	return r, at("base"), at("upper")
}

func TestStageLinks(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r, base, upper := layered(t, t.TempDir())
	edited := filepath.Join(r.Image, testLib, "edited")
	st := require.Value(os.Stat(edited))(t)
	require.NoError(t, os.WriteFile(edited, []byte("EDIT "+big), 0o644)) // inode number, size and time stay
	require.NoError(t, os.Chtimes(edited, st.ModTime(), st.ModTime()))
	require.NoError(t, os.Remove(filepath.Join(r.Image, testLib, "removed")))
	require.NoError(t, os.Chmod(filepath.Join(r.Image, testLib, "touched"), 0o600))
	require.Value(os.Lstat(filepath.Join(upper, testLib, "removed")))(t) // the whiteout
	dir, log := stageLog(t, r)
	assert.Contains(t, log, logtest.Staged+r.Storage)
	assert.Contains(t, log, " shared=104")

	want, got := describe(t, r.Image), describe(t, dir)
	for _, name := range []string{"usr/share/one", "usr/share/one/a", "usr/share/one/sub", "usr/share/one/sub/b", "usr/share/one/odd",
		"usr/share/one/odd/c", "usr/share/one/null", "usr/bin/big", "usr/bin/ping", testLib + "open", testLib + "hidden", testLib + "edited", testLib + "touched", "usr/bin/su", "etc/big"} {
		assert.Samef(t, want[name], got[name], "%s", name)
	}
	assert.Equalf(t, "", got[testLib+"removed"], "a removed file is there")
	for name, linked := range map[string]bool{
		"usr/bin/big": true, "usr/bin/ping": true, testLib + "open": true, testLib + "libcuda.so." + testVersion: true,
		"usr/share/one/sub/b": true, "usr/share/one/odd/c": true,
		"usr/bin/script": false, "usr/bin/su": false, "etc/big": false, "usr/src/big": false,
		testLib + "hidden": false, testLib + "edited": false, testLib + "touched": false,
	} {
		assert.Equalf(t, linked, isSameFile(filepath.Join(base, name), filepath.Join(dir, name)), "%s is linked", name)
	}
	assert.Equalf(t, true, isSameFile(filepath.Join(filepath.Dir(base), "driver", testLib, "hidden"), filepath.Join(dir, testLib, "hidden")), "the upper layer's file is linked")

	// A linked root serves, is reused, outlives its image, and its removal harms no layer.
	require.NoError(t, r.Mount(t.Context(), staged(t, r)))
	adoptable(t, r, "")
	require.NoError(t, r.Unmount(t.Context()))
	before := describe(t, base)[testLib+"hidden"]
	assert.Equalf(t, true, reused(t, r), "the second time")
	require.NoError(t, r.removeTree(dir))
	assert.Equalf(t, before, describe(t, base)[testLib+"hidden"], "the layer changed")
	assert.Equalf(t, false, strings.Contains(describe(t, base)[testLib+"open"], "linked with"), "a link is left")
}

// When the image's layers are unknown or cannot be used, everything is copied.
func TestStageCopiesWhereItCannotLink(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	for name, c := range map[string]struct {
		edit func(t *testing.T, r *Root)
		why  string
	}{
		"no process of the host": {func(_ *testing.T, r *Root) { r.init = "/nowhere" }, "open the host's root"},
		"a host without the layers": {func(t *testing.T, r *Root) {
			r.init = t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(r.init, "root"), 0o755))
		}, "none of the image's layers"},
		"another file system": {func(t *testing.T, r *Root) {
			require.NoError(t, os.MkdirAll(r.Storage, 0o755))
			require.NoError(t, unix.Mount("storage", r.Storage, "tmpfs", 0, ""))
			t.Cleanup(func() { _ = unix.Unmount(r.Storage, unix.MNT_DETACH) })
		}, "another file system"},
	} {
		t.Run(name, func(t *testing.T) {
			tool.AsRoot(t, "it mounts")
			r, base, _ := layered(t, t.TempDir())
			require.NoError(t, unix.Mknod(filepath.Join(base, "usr/share/one/gone"), unix.S_IFCHR, 0)) // a whiteout of nothing: the overlay lists it
			c.edit(t, r)
			dir, log := stageLog(t, r)
			assert.Contains(t, log, c.why)
			assert.Contains(t, log, " shared=0 ")
			assert.Same(t, []string{"a", "null", "odd", "sub"}, testfile.List(t, filepath.Join(dir, "usr/share/one")))
			assert.Equalf(t, big, string(require.Value(os.ReadFile(filepath.Join(dir, "usr/bin/big")))(t)), "the copy")
			assert.Equalf(t, false, isSameFile(filepath.Join(base, "usr/bin/big"), filepath.Join(dir, "usr/bin/big")), "it is linked")
		})
	}
}

// The storage is a volume of the pod, a mount of its own in the layers' file system: the same folder is found
// beside the layers.
func TestStageLinksThroughAVolume(t *testing.T) {
	tool.AsRoot(t, "it mounts")
	r, base, _ := layered(t, t.TempDir())
	require.NoError(t, unix.Mknod(filepath.Join(base, "usr/share/one/gone"), unix.S_IFCHR, 0))
	volume := t.TempDir()
	require.NoError(t, os.MkdirAll(r.Storage, 0o755))
	require.NoError(t, unix.Mount(r.Storage, volume, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(volume, unix.MNT_DETACH) })
	r.Storage = volume
	dir, _ := stageLog(t, r)
	assert.Equalf(t, true, isSameFile(filepath.Join(base, "usr/bin/big"), filepath.Join(dir, "usr/bin/big")), "it is not linked")
	assert.Same(t, []string{"a", "null", "odd", "sub"}, testfile.List(t, filepath.Join(dir, "usr/share/one")))
}

func TestOverlayLowers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options string
		want    []string
	}{
		"containerd":            {"rw,lowerdir=/s/3/fs:/s/1/fs,upperdir=/s/9/fs,workdir=/s/9/work,index=off", []string{"/s/3/fs", "/s/1/fs"}},
		"the new mount calls":   {"rw,lowerdir+=/s/3/fs,lowerdir+=/s/1/fs,datadir+=/s/0,upperdir=/s/9/fs", []string{"/s/3/fs", "/s/1/fs"}},
		"layers with data only": {"ro,lowerdir=/a::/data,metacopy=on", []string{"/a", "/data"}},
		"CRI-O, many layers":    {"rw,lowerdir=l/ABC:l/DEF,upperdir=x/diff", nil},
		"escapes":               {`lowerdir=/a\:b:/c,upperdir=/s/9/fs`, nil},
		"in a user's name":      {"lowerdir=/a,upperdir=/b,userxattr", nil},
		"no overlay":            {"rw,errors=remount-ro", nil},
		"too many":              {"lowerdir=" + strings.Repeat("/a:", maxLayers) + "/a", nil},
	} {
		assert.Samef(t, c.want, overlayLowers(c.options), "%s", name)
	}
	assert.Equal(t, true, metacopy("rw,metacopy=on"))
	assert.Equal(t, false, metacopy("rw,metacopy=off"))
}

func FuzzOverlayLowers(f *testing.F) {
	f.Add("rw,lowerdir=/s/3/fs:1/fs,upperdir=/s/9/fs,workdir=/s/9/work")
	f.Add("lowerdir+=/a,lowerdir+=b,upperdir=/")
	f.Add("lowerdir=::,upperdir=,lowerdir")
	f.Fuzz(func(t *testing.T, options string) {
		for _, lower := range overlayLowers(options) {
			assert.Equalf(t, true, filepath.IsAbs(lower) && lower == filepath.Clean(lower), "path %q", lower)
		}
		metacopy(options)
	})
}

// Somebody writes to a layer at the same time: a file that differs from what the overlay showed is not
// linked.
func TestLinkOfWhatChanges(t *testing.T) {
	tool.AsRoot(t, "it mounts")
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
		if find([]*os.File{lower}, name, &shown) == nil {
			t.Fatalf("%s: not found as it is", name)
		}
		time.Sleep(40 * time.Millisecond) // times of file systems have a limited resolution
		change(filepath.Join(dir, name))
		assert.Equalf(t, true, find([]*os.File{lower}, name, &shown) == nil, "%s: not found", name)
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

// A bake that was killed leaves a link beside its file: the next one replaces it, and goes on.
func TestShareAfterKill(t *testing.T) {
	t.Parallel()
	roots := t.TempDir()
	files := testfile.Tree(t, roots, map[string]string{"a/usr/lib/x.so": "same", "a/usr/lib/x.so.tmp": "same", "b/usr/lib/x.so": "same"})
	for _, name := range []string{"/a/usr/lib/x.so", "/b/usr/lib/x.so"} {
		require.NoError(t, os.Chtimes(files+name, time.Unix(1, 0), time.Unix(1, 0)))
	}
	saved := require.Value((&Root{}).Share(t.Context(), roots+"/a", []string{roots + "/b"}))(t)
	assert.Equal(t, int64(len("same")), saved)
	assert.Equal(t, true, isSameFile(roots+"/a/usr/lib/x.so", roots+"/b/usr/lib/x.so"))
	assert.Same(t, []string{"x.so"}, testfile.List(t, roots+"/a/usr/lib"))
}

func open(t *testing.T, dir string) *os.File {
	t.Helper()
	f := require.Value(os.Open(dir))(t)
	t.Cleanup(func() { f.Close() })
	return f
}
