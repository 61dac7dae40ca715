package drivertoolkit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// TestHandOver is the life of a pod: the toolkit container starts first and waits for the flag, then for a request,
// compiles, and stays. The next driver container of the pod takes the same modules without a compile.
func TestHandOver(t *testing.T) {
	t.Parallel()
	count := filepath.Join(t.TempDir(), "count")
	p := newPod(t, kbuildtest.Kernel, "printf x >> "+count+"\ncp KOS/*.ko .")
	stop, ended := p.run()
	require.NoError(t, Invite(p.dir))
	p.wait("the reason", func() bool {
		return strings.Contains(p.log.String(), `it looks for modules of the image and of the cache first`)
	})
	var waited []string
	set := require.Value(p.compile(func(j *Job) { j.Waits = func(text string) { waited = append(waited, text) } }))(t)
	var names []string
	for _, m := range set.Modules {
		names = append(names, m.Name)
		if !strings.HasPrefix(m.Path, set.Dir+"/") || testfile.Read(t, m.Path) != kbuildtest.Module(strings.ReplaceAll(m.Name, "-", "_"), kbuildtest.Driver, kbuildtest.Kernel) {
			t.Errorf("%s in %s", m.Path, set.Dir)
		}
	}
	if !slices.Equal(names, kbuildtest.Modules) || set.SigHash != "sha256" {
		t.Errorf("%v, %+v", names, set)
	}
	assert.Equal(t, "waiting for the Driver Toolkit container to start", waited[0])

	// The driver container starts again: the other one gives it what is there.
	require.NoError(t, Invite(p.dir))
	again := require.Value(p.compile(nil))(t)
	assert.Equal(t, set.Key.String(), again.Key.String())
	assert.Equalf(t, "x", testfile.Read(t, count), "runs of make")
	stop()
	require.NoError(t, ended())
}

// TestRestarts: the toolkit container ends while it compiles and is started again.
func TestRestarts(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	p := newPod(t, kbuildtest.Kernel, "[ -f "+gate+" ] || { touch "+gate+"; sleep 60; }\ncp KOS/*.ko .")
	stop, ended := p.run()
	go func() {
		p.wait("the first compile", func() bool { return !missing(gate) })
		stop()
		assert.NoErrorf(t, ended(), "a signal")
		p.run()
	}()
	set := require.Value(p.compile(nil))(t)
	assert.Equal(t, 5, len(set.Modules))
}

// TestFlagsOfBefore: whatever an earlier life or another program left in the folder, only the answer to this
// request counts.
func TestFlagsOfBefore(t *testing.T) {
	t.Parallel()
	p := newPod(t, kbuildtest.Kernel, "cp KOS/*.ko .")
	testfile.Tree(t, p.dir, map[string]string{
		prepared: "", "env": "A=\"b\"", "nvidia-driver": "#!/bin/sh", driverDir + "/x": "-> /etc/passwd",
		answerFile:                  `{"schema":4,"run":"0123456789abcdef","set":"x"}`,
		modulesDir + "/x/nvidia.ko": "old",
	})
	_, err := p.compile(func(j *Job) { j.Timeout = 300 * time.Millisecond })
	assert.ErrorContains(t, err, "gives no modules: it did not begin within 300ms; see whether openshift-driver-toolkit-ctr runs")
	assert.Equalf(t, true, missing(p.dir+"/driver/x"), "old files are left")
	p.run()
	require.Value(p.compile(nil))(t)
	assert.Equal(t, "root", testfile.Read(t, "/etc/passwd")[:4])
}

// TestCompileFails: the error of the compile is the one that a compile in the driver container would give.
func TestCompileFails(t *testing.T) {
	t.Parallel()
	p := newPod(t, kbuildtest.Kernel, "echo 'nv.c:1: error: no such thing'; exit 2")
	p.run()
	_, err := p.compile(nil)
	failed, ok := errors.AsType[*kbuild.CompileError](err)
	if !ok || !slices.Contains(failed.Tail, "nv.c:1: error: no such thing") || failed.Log != filepath.Join(p.dir, logFile) || !strings.Contains(err.Error(), "(in the Driver Toolkit container): nv.c:1: error: no such thing") {
		t.Fatalf("%#v, %v", failed, err)
	}
	assert.Contains(t, testfile.Read(t, failed.Log), "no such thing")
}

// TestCompanionLeftOut: a companion that does not compile there costs the companion only. Its reason, a text
// of the toolkit container, is one plain line.
func TestCompanionLeftOut(t *testing.T) {
	t.Parallel()
	p := newPod(t, kbuildtest.Kernel, "cp KOS/*.ko .")
	p.info.Companions = kbuildtest.Companions(t, p.image, filepath.Join(p.toolkit, "bin/gcc-12"))
	testfile.Write(t, filepath.Join(p.image, p.info.Companions[0].Sources, "configure"), "#!/bin/sh\nKDIR=$MODULES_DIR/build\nprintf 'nvfs.c:1: error: no\\033[2J such field\\n' >&2; exit 1\n")
	p.run()
	set := require.Value(p.compile(func(j *Job) { j.Companions = driverinfo.Companions() }))(t)
	_, there := set.File(driverinfo.GDRDrv)
	if reason := set.OmittedReason(driverinfo.NvidiaFS); reason != "nvfs.c:1: error: no?[2J such field" || !there {
		t.Errorf("%q, gdrdrv %v", reason, there)
	}
}

// TestBrokenToolkit: a toolkit that cannot compile for the node's kernel, or sees another RDMA driver, says why.
func TestBrokenToolkit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		release string
		spoil   func(p *pod) error
		want    string
		rdma    []string
	}{
		"another kernel": {"5.14.0-427.13.1.el9_4.x86_64", nil,
			"the toolkit is for kernel 5.14.0-427.13.1.el9_4.x86_64, the node runs " + kbuildtest.Kernel + "; is the node being upgraded", nil},
		"no headers":     {kbuildtest.Kernel, func(p *pod) error { return os.RemoveAll(p.toolkit + "/usr") }, "the toolkit has headers of no kernel; the node runs " + kbuildtest.Kernel, nil},
		"no compiler":    {kbuildtest.Kernel, func(p *pod) error { return os.Remove(p.toolkit + "/bin/gcc-12") }, "no compiler for this kernel: it was built with gcc 12.2.0", nil},
		"no RDMA driver": {kbuildtest.Kernel, nil, `it sees the RDMA driver "", the driver container "ofa_kernel-1": mount /run/mellanox/drivers/usr/src in both`, []string{"ofa_kernel-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPod(t, c.release, "cp KOS/*.ko .")
			if c.spoil != nil {
				require.NoError(t, c.spoil(p))
			}
			p.run()
			_, err := p.compile(func(j *Job) { j.RDMA = c.rdma })
			assert.Contains(t, require.ErrorAs[*UnavailableError](t, err).Error(), c.want)
		})
	}
}

// TestSilent: a toolkit container that dies and stays away is not waited for without end. TestFlagsOfBefore has one that never comes.
func TestSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time of a bubble does not run while the machine is busy
		p := newPod(t, kbuildtest.Kernel, "")
		go func() {
			begun := `{"schema":4,"run":"` + p.asked().Run + `"}`
			p.replace(answerFile, content(begun))
		}()
		begin := time.Now()
		assert.ErrorContains(t, assert.Err(p.compile(func(j *Job) { j.Timeout = 2 * time.Second })), "it compiles for longer than 1h0m0s")
		assert.Equal(t, true, time.Since(begin) < buildDeadline+time.Minute)
		assert.Equalf(t, true, missing(p.dir+"/request.json"), "the request is not withdrawn")
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		time.AfterFunc(time.Second, func() { cancel(stopped) })
		assert.ErrorIs(t, assert.Err(p.job().Compile(ctx)), stopped)
	})
}

// TestUnusableFolder: each is an error that says what to do, and nothing is waited for.
func TestUnusableFolder(t *testing.T) {
	t.Parallel()
	p := newPod(t, kbuildtest.Kernel, "")
	for name, c := range map[string]struct {
		make func(t *testing.T) string
		want string
	}{
		"missing":   {func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, "mount one emptyDir there in both containers"},
		"no folder": {func(t *testing.T) string { return testfile.Write(t, filepath.Join(t.TempDir(), "file"), "") }, "not a directory"},
		"full":      {func(t *testing.T) string { return tmpfs(t, "size=64k", 0) }, "is full: raise the sizeLimit of the emptyDir"},
		"read-only": {func(t *testing.T) string { return tmpfs(t, "size=64k", unix.MS_RDONLY) }, "has to be writable in both containers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := c.make(t)
			begin := time.Now()
			_, err := p.compile(func(j *Job) { j.Dir, j.Work = dir, filepath.Join(t.TempDir(), "work") })
			if !errors.As(err, new(*UnavailableError)) || !strings.Contains(err.Error(), c.want) || time.Since(begin) > waitLimit/2 {
				t.Errorf("%v, want %s", err, c.want)
			}
			assert.Errorf(t, Invite(dir), "invited into a folder that cannot be used")
		})
	}
}

// tmpfs mounts a small file system.
func tmpfs(t *testing.T, size string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, size); err != nil {
		t.Skipf("this test mounts file systems: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}
