package kmod

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/u-root/u-root/pkg/kmodule"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// kernel is a strict fake of the kernel's loader: a module's needs must be loaded before it, no module loads
// twice, and loaded modules show in sysfs. It reads the file that it is given.
type kernel struct {
	t        testing.TB
	s        System
	refuse   map[string]unix.Errno // error by module
	log      map[string]string     // by module, records that it writes into the log
	loads    []string              // "name params"
	recorded []string
}

func newKernel(t testing.TB) *kernel {
	dir := testfile.Tree(t, t.TempDir(), map[string]string{"sys/module/": "", "proc/modules": "", "kmsg": "6,1,1,-;booted\n"})
	k := &kernel{t: t, refuse: map[string]unix.Errno{}, log: map[string]string{}}
	k.s = System{Sys: dir + "/sys", Proc: dir + "/proc", Kmsg: dir + "/kmsg", load: k.load}
	return k
}

// record requires that a name is recorded before the module is loaded.
func (k *kernel) record(name string) {
	if _, err := k.s.Module(name); err == nil {
		k.t.Errorf("%s was recorded when it was loaded already", name)
	}
	k.recorded = append(k.recorded, name)
}

func (k *kernel) load(f *os.File, kind, params string) error {
	info, err := ReadInfo(f.Name())
	if err != nil {
		return unix.ENOEXEC
	}
	if text := k.log[info.Name]; text != "" {
		appendTo(k.t, k.s.Kmsg, text)
	}
	if errno, ok := k.refuse[info.Name]; ok {
		return errno
	}
	if _, err := k.s.Module(info.Name); err == nil {
		return unix.EEXIST
	}
	for _, d := range info.Depends {
		if _, err := k.s.Module(d); err != nil {
			appendTo(k.t, k.s.Kmsg, "4,2,2,-;"+info.Name+": Unknown symbol "+d+"_init (err -2)\n")
			return unix.ENOENT
		}
	}
	dir := k.s.sys("module", info.Name)
	testfile.Write(k.t, dir+"/initstate", "live\n")
	testfile.Write(k.t, dir+"/refcnt", "0\n")
	k.loads = append(k.loads, strings.TrimSpace(info.Name+" "+params+" "+kind))
	return nil
}

func (k *kernel) file(name string, content []byte) string {
	path := filepath.Join(k.t.TempDir(), name)
	testfile.Write(k.t, path, string(content))
	return path
}

func TestInsert(t *testing.T) {
	t.Parallel()
	k := newKernel(t)
	path := k.file("nvidia-uvm.ko", moduleOf("name=nvidia_uvm", "vermagic=1"))
	require.NoError(t, k.s.Insert(t.Context(), path, "", []string{"a=1", "b=x y"}))
	if want := []string{`nvidia_uvm a=1 b="x y"`}; !slices.Equal(k.loads, want) {
		t.Errorf("loaded %q; want %q", k.loads, want)
	}
	if err := k.s.Insert(t.Context(), path, "", nil); !errors.Is(err, ErrLoaded) || !errors.Is(err, unix.EEXIST) {
		t.Errorf("the second time: %v; want ErrLoaded", err)
	}
}

// The kernel gets the file that was compared with its digest, and no other that has its path by then. A file of
// another content does not get to the kernel.
func TestInsertVerified(t *testing.T) {
	t.Parallel()
	k := newKernel(t)
	good := moduleOf("name=x", "vermagic=1", "version=verified")
	for _, name := range []string{"x.ko", "x.ko.xz"} {
		content := good
		if name == "x.ko.xz" {
			content = repotest.Compress(t, ".xz", good)
		}
		digest := fmt.Sprintf("%x", sha256.Sum256(content))
		path := k.file(name, content)
		k.s.load = func(f *os.File, kind, _ string) error {
			require.NoError(t, os.Rename(k.file("other.ko", moduleOf("name=x", "vermagic=1", "version=other")), path))
			got, err := io.ReadAll(f)
			require.NoError(t, err)
			assert.Equalf(t, true, bytes.Equal(content, got), "%s: the kernel got other bytes than those that were verified", name)
			return nil
		}
		require.NoError(t, k.s.Insert(t.Context(), path, digest, nil))
		k.s.load = func(*os.File, string, string) error {
			t.Errorf("%s: a file of another content got to the kernel", name)
			return nil
		}
		assert.ErrorIs(t, k.s.Insert(t.Context(), path, digest, nil), ErrChanged)
	}
}

func TestInsertRefused(t *testing.T) {
	t.Parallel()
	k := newKernel(t)
	k.refuse["nvidia"] = unix.ENODEV
	k.log["nvidia"] = "6,2,2,-;nvidia-nvlink: Nvlink Core is being initialized, major device number 246\n3,3,3,-;NVRM: No NVIDIA GPU found.\n"
	path := k.file("nvidia.ko.xz", repotest.Compress(t, ".xz", nvidiaModule()))
	err := k.s.Insert(t.Context(), path, "", []string{"NVreg_EnableMSI=1"})
	var refused *RefusedError
	if !errors.As(err, &refused) || !errors.Is(err, unix.ENODEV) {
		t.Fatalf("insert: %v; want *RefusedError with ENODEV", err)
	}
	want := &RefusedError{Module: "nvidia", Path: path, Params: []string{"NVreg_EnableMSI=1"}, Errno: unix.ENODEV,
		Kernel: []string{"nvidia-nvlink: Nvlink Core is being initialized, major device number 246", "NVRM: No NVIDIA GPU found."}}
	assert.Samef(t, want, refused, "error (-want +got)")
	text := err.Error()
	for _, part := range []string{"nvidia.ko.xz", "(ENODEV)", "this machine has no NVIDIA GPU: ", `"NVRM: No NVIDIA GPU found."`} {
		assert.Containsf(t, text, part, "the error does not say")
	}
	testfile.Write(t, k.s.proc("sys/kernel/modules_disabled"), "1\n")
	k.refuse["nvidia"] = unix.EPERM
	assert.Containsf(t, k.s.Insert(t.Context(), path, "", nil).Error(), "modules_disabled", "with modules switched off")
}

func TestInsertNothing(t *testing.T) {
	t.Parallel()
	k := newKernel(t)
	path := k.file("x.ko", moduleOf("vermagic=1"))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIsf(t, k.s.Insert(cancelled, path, "", nil), context.Canceled, "cancelled")
	assert.ErrorIsf(t, k.s.Insert(t.Context(), path+".none", "", nil), fs.ErrNotExist, "no file")
	assert.ErrorIsf(t, k.s.Insert(t.Context(), filepath.Dir(path), "", nil), ErrFormat, "a folder")
	assert.Errorf(t, k.s.Insert(t.Context(), path, "", []string{"a\nb"}), "a parameter with a line end was taken")
	assert.Equalf(t, 0, len(k.loads), "loaded %q; want nothing", k.loads)
}

// Insert waits for a load that has begun after the context's end, but not for ever.
func TestInsertWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "slow.ko")
	testfile.Write(t, path, string(moduleOf("vermagic=1")))
	for name, stuck := range map[string]bool{"done in time": false, "stuck": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), insertGrace)
				defer cancel()
				release := make(chan struct{})
				err := System{Sys: "/none", Proc: "/none", Kmsg: "/none", load: func(*os.File, string, string) error {
					if stuck {
						<-release
					} else {
						<-ctx.Done()
					}
					return nil
				}}.Insert(ctx, path, "", nil)
				close(release)
				if stuck != errors.Is(err, ErrStuck) || stuck != errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("insert: %v", err)
				}
			})
		})
	}
}

// The kernel of the machine that runs the tests must refuse a file that is not a module.
func TestInsertForReal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "driver_container_test.ko")
	testfile.Write(t, path, string(moduleOf("name=driver_container_test", "vermagic=none")))
	var refused *RefusedError
	if err := (System{}).Insert(t.Context(), path, "", nil); !errors.As(err, &refused) || refused.Reason() == "" {
		t.Errorf("Insert of an empty module: %v; want *RefusedError", err)
	}
	testfile.Write(t, path+".xz", "\xfd7zXZ\x00 and nothing more")
	if err := (System{}).Insert(t.Context(), path+".xz", "", nil); err == nil || errors.As(err, &refused) {
		t.Errorf("Insert of damaged xz data: %v; want an error that is not the kernel's", err)
	}
}

// finit_module has the file, by which LoadPin and IMA judge; init_module has its content only. A file that
// cannot be read tells them apart: the version of kmodule that reads a plain module gets Go's error, and the one
// that passes its file on gets the kernel's. The flag keeps FileInit from reading where the kernel has no modules.
func TestFileInitNamesTheFile(t *testing.T) {
	t.Parallel()
	path := testfile.Write(t, filepath.Join(t.TempDir(), "x.ko"), string(moduleOf("vermagic=1")))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	err = kmodule.FileInit(f, "", kmodule.MODULE_INIT_IGNORE_VERMAGIC)
	if _, read := errors.AsType[*fs.PathError](err); err == nil || read {
		t.Errorf("FileInit of a plain module: %v; want an answer of finit_module", err)
	}
}

// FileInit decompresses what is named so; a plain module of such a name has to get to the kernel as it is.
func TestLoadByContent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x.ko", "x.ko.xz", "x.ko.gz", "x.ko.zst", "x"} {
		path := testfile.Write(t, filepath.Join(t.TempDir(), name), string(moduleOf("vermagic=none")))
		f, kind, err := openRegular(path)
		require.NoError(t, err)
		defer f.Close()
		err = load(f, kind, "")
		if _, answered := errors.AsType[unix.Errno](err); !answered {
			t.Errorf("load of a plain module named %s: %v; want an answer of the kernel", name, err)
		}
	}
}
