package headers

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/debtest"
	"github.com/driver-container/driver-container/ci/testkit/gate"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// hostile fetches with additional members in the package of the kernel's own headers.
func hostile(t *testing.T, prepare func(*image), more ...repotest.File) (*image, error) {
	t.Helper()
	debs := debian(testRelease, "1")
	debs[0].Files = append(debs[0].Files, more...)
	i := newImage(t, newArchive(t, debs...).start().server.URL)
	if prepare != nil {
		prepare(i)
	}
	_, err := i.fetch()
	return i, err
}

const here = "./usr/src/linux-headers-" + testRelease + "/"

func TestRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		add  []repotest.File
		want error
	}{
		{"setuid", []repotest.File{{Name: here + "sh", Body: "x", Mode: 0o4755}}, ErrPackage},
		{"setgid", []repotest.File{{Name: here + "sh", Body: "x", Mode: 0o2755}}, ErrPackage},
		{"setuid where it would be left out", []repotest.File{{Name: "./usr/bin/sh", Body: "x", Mode: 0o4755}}, ErrPackage},
		{"device", []repotest.File{{Name: here + "sda", Type: tar.TypeBlock}}, dpkg.ErrUnsafePath},
		{"pipe", []repotest.File{{Name: here + "p", Type: tar.TypeFifo}}, dpkg.ErrUnsafePath},
		{"up", []repotest.File{{Name: "./usr/src/linux-x/../../../etc/passwd", Body: "x"}}, dpkg.ErrUnsafePath},
		{"absolute", []repotest.File{{Name: "/usr/src/linux-x", Body: "x"}}, dpkg.ErrUnsafePath},
		{"link to the system", []repotest.File{{Name: here + "x", Link: "/etc/shadow"}}, ErrPackage},
		{"link to the host", []repotest.File{{Name: here + "x", Link: "/proc/1/root/etc"}}, ErrPackage},
		{"link out of the root", []repotest.File{{Name: here + "x", Link: "../../../../usr/lib"}}, ErrPackage},
		{"link with a way round", []repotest.File{{Name: here + "x", Link: "/usr/../etc"}}, ErrPackage},
		{"through a link", []repotest.File{{Name: "./usr/src/linux-x", Link: "../lib"}, {Name: "./usr/src/linux-x/libc.so.6", Body: "x"}}, ErrConflict},
		{"through a link deeper", []repotest.File{{Name: here + "x", Link: "/usr/lib"}, {Name: here + "x/y/libc.so.6", Body: "x"}}, ErrConflict},
		{"folder for a link", []repotest.File{{Name: here + "x", Link: "/usr/lib"}, {Name: here + "x/"}}, ErrConflict},
		{"file for a folder", []repotest.File{{Name: here + "include", Body: "x"}}, ErrConflict},
		{"twice and different", []repotest.File{{Name: here + "Makefile", Body: "other"}}, ErrConflict},
		{"hard link to elsewhere", []repotest.File{{Name: here + "x", Type: tar.TypeLink, Link: "./etc/shadow"}}, ErrPackage},
		{"hard link to nothing", []repotest.File{{Name: here + "x", Type: tar.TypeLink, Link: here + "y"}}, ErrPackage},
		{"hard link through a link", []repotest.File{{Name: here + "l", Link: "/usr/lib"}, {Name: here + "x", Type: tar.TypeLink, Link: here + "l/os-release"}}, ErrConflict},
		{"hard link to a link", []repotest.File{{Name: here + "l", Link: "/usr/lib/os-release"}, {Name: here + "x", Type: tar.TypeLink, Link: here + "l"}}, ErrPackage},
		{"endless release", []repotest.File{{Name: here + "sub/include/config/kernel.release", Body: strings.Repeat("6", 5000)}}, ErrPackage},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			i, err := hostile(t, nil, test.add...)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), "linux-headers-6.1.0-38-amd64 1") {
				t.Errorf("%v; want %v and the package's name", err, test.want)
			}
			if left := i.list(); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

func TestLeftOutOfPackages(t *testing.T) {
	t.Parallel()
	i := require.Value(hostile(t, nil,
		repotest.File{Name: "./usr/bin/gcc", Body: "x", Mode: 0o755}, repotest.File{Name: "./etc/passwd", Body: "x"}, repotest.File{Name: "./lib/modules/other/build", Link: "/usr/src"},
		repotest.File{Name: "./usr/src/nvidia-535/nv.c", Body: "x"}, repotest.File{Name: "./usr/lib/libc.so.6", Body: "x"},
		repotest.File{Name: here + "copy", Type: tar.TypeLink, Link: here + "Makefile"}))(t)
	var more []string
	for _, name := range i.list() {
		if !strings.Contains(strings.Join(debianTree, "\n")+"\n", name+"\n") {
			more = append(more, name)
		}
	}
	assert.Same(t, []string{"usr/src/linux-headers-6.1.0-38-amd64/copy"}, more)
	assert.Equalf(t, "include ../\n", i.read("usr/src/linux-headers-6.1.0-38-amd64/copy"), "the hard link has other content")
	if !strings.Contains(i.log(), `left out package="linux-headers-6.1.0-38-amd64 1": ["etc/passwd" "lib/modules/other/build" "usr/bin/gcc"] and more`) {
		t.Errorf("it said %s", i.log())
	}
}

// An existing file is not overwritten, and a tree that existed before is not removed.
func TestInTheWay(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*image){
		"another file": func(i *image) { i.write("usr/src/linux-headers-6.1.0-38-amd64/Makefile", "mine") },
		"a longer file": func(i *image) {
			i.write("usr/src/linux-headers-6.1.0-38-amd64/Makefile", "include ../\n"+strings.Repeat("x", 1<<20))
		},
		"a link": func(i *image) {
			i.write("mine/x", "mine")
			require.NoError(i.t, os.Symlink("../../mine", filepath.Join(i.dir, "usr/src/linux-headers-6.1.0-38-common")))
		},
		"another link": func(i *image) {
			i.write("usr/src/linux-headers-6.1.0-38-amd64/x", "")
			require.NoError(i.t, os.Symlink("/usr", filepath.Join(i.dir, "usr/src/linux-headers-6.1.0-38-amd64/scripts")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var before []string
			i, err := hostile(t, func(i *image) { prepare(i); before = i.list() })
			if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "/usr/src/linux-headers-6.1.0-38") {
				t.Error(err)
			}
			left := strings.Join(i.list(), "\n")
			for _, name := range before {
				assert.Containsf(t, left, name, "is gone")
			}
			if strings.Contains(left, "utsrelease.h") || strings.Contains(left, temporary) {
				t.Errorf("left %s", left)
			}
		})
	}
}

// Tools that headers of another kernel brought are upgraded, as dpkg would; the links of lib/modules are
// corrected.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	i := require.Value(hostile(t, func(i *image) {
		i.write("var/lib/dpkg/status", status("libc6 2.36", "linux-kbuild-6.1 0.9"))
		i.write("usr/lib/linux-kbuild-6.1/scripts/basic/fixdep", "old")
		i.write("usr/lib/linux-kbuild-6.1/scripts/old", "old")
		require.NoError(i.t, os.MkdirAll(filepath.Join(i.dir, "lib/modules", testRelease), 0o755))
		require.NoError(i.t, os.Symlink("/nowhere", filepath.Join(i.dir, "lib/modules", testRelease, "build")))
	}))(t)
	if i.read("usr/lib/linux-kbuild-6.1/scripts/basic/fixdep") != "fixdep of 1" || i.read("usr/lib/linux-kbuild-6.1/scripts/old") != "old" {
		t.Error("the tools are not the new ones")
	}
	if to, err := os.Readlink(filepath.Join(i.dir, "lib/modules", testRelease, "build")); to != "/usr/src/linux-headers-"+testRelease {
		t.Error(to, err)
	}
}

func TestBrokenPackages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(debs []debtest.Package)
		want   error
	}{
		{"cut", func(d []debtest.Package) { d[0].Damage = func(b []byte) []byte { return b[:len(b)-3000] } }, dpkg.ErrFormat},
		{"not a package", func(d []debtest.Package) { d[1].Damage = func([]byte) []byte { return []byte("<html>") } }, dpkg.ErrFormat},
		{"another kernel", func(d []debtest.Package) { d[0].Files = debian("6.1.0-37-amd64", "1")[0].Files }, ErrPackage},
		{"no release", func(d []debtest.Package) { d[0].Files = d[0].Files[6:] }, ErrPackage},
		{"no size", func(d []debtest.Package) { d[0].Control = strings.Replace(d[0].Control, "Size: 100", "Size: -1", 1) }, ErrPackage},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			debs := debian(testRelease, "1")
			test.change(debs)
			i := newImage(t, newArchive(t, debs...).start().server.URL)
			_, err := i.fetch()
			assert.ErrorIs(t, err, test.want)
			if left := i.list(); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

// The remains of a killed predecessor are no obstacle and are not taken for complete headers.
func TestAfterKill(t *testing.T) {
	t.Parallel()
	i, err := hostile(t, func(i *image) {
		i.write("usr/src/"+temporary, "half a fi")
		i.write("usr/lib/"+temporary, "")
		i.write("usr/src/linux-headers-6.1.0-38-amd64/Makefile", "include ../\n")
	})
	if diff := cmp.Diff(debianTree, i.list()); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// The host's /lib/modules, mounted read-only.
func TestReadOnlyModules(t *testing.T) {
	t.Parallel()
	gate.Root(t, "it mounts")
	runtime.LockOSThread() // and never unlocked: the thread with its own mounts ends with the test
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS))
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	i := newImage(t)
	require.NoError(t, os.MkdirAll(filepath.Join(i.dir, "usr/lib/modules"), 0o755))
	modules, src := filepath.Join(i.dir, "usr/lib/modules"), filepath.Join(i.dir, "usr/src")
	require.NoError(t, unix.Mount("tmpfs", modules, "tmpfs", unix.MS_RDONLY, ""))
	defer func() { require.NoError(t, unix.Unmount(modules, unix.MNT_DETACH)) }()
	root := require.Value(os.OpenRoot(i.dir))(t)
	defer root.Close()
	tr := &tree{root: root, release: testRelease, log: i.options().Log}
	for _, e := range debian(testRelease, "1")[0].Files {
		h, r, err := member(t, e)
		require.NoError(t, err)
		require.NoErrorf(t, tr.member(h, r, map[string]bool{}), "%s", e.Name)
	}
	require.NoError(t, tr.publish())
	require.NoError(t, tr.close(false))
	if !strings.Contains(i.read("usr/src/linux-headers-6.1.0-38-amd64/include/generated/utsrelease.h"), testRelease) {
		t.Error("the headers are not there")
	}
	assert.Containsf(t, i.log(), "not written: the file system is read-only path=/lib/modules/6.1.0-38-amd64/build", "it said")

	require.NoError(t, unix.Mount("tmpfs", src, "tmpfs", unix.MS_RDONLY, ""))
	defer func() { require.NoError(t, unix.Unmount(src, unix.MNT_DETACH)) }()
	tr = &tree{root: root, release: testRelease, log: i.options().Log}
	h, r, err := member(t, repotest.File{Name: here + "x", Body: "x"})
	require.NoError(t, err)
	assert.ErrorIs(t, tr.member(h, r, nil), syscall.EROFS)
	require.NoError(t, tr.close(true))
}

// member passes a repotest.File through tar, with its name cleaned like dpkg does.
func member(t *testing.T, e repotest.File) (*tar.Header, *tar.Reader, error) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(repotest.RawTar(t, e)))
	h, err := r.Next()
	if err == nil {
		h.Name = strings.Trim(strings.TrimPrefix(h.Name, "./"), "/")
	}
	return h, r, err
}

func FuzzPlace(f *testing.F) {
	f.Add("usr/src/linux-headers-6.1.0-38-amd64/Makefile")
	f.Add("usr/lib/modules/6.1.0-38-amd64/build")
	f.Fuzz(func(t *testing.T, name string) {
		tr := tree{release: testRelease}
		dir, rest, ok := tr.splitName(name)
		if ok && (dir+"/"+rest != name || rest == "") {
			t.Fatalf("%q is %q and %q", name, dir, rest)
		}
	})
}
