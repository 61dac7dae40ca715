package drivertoolkit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

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
		"no headers":  {kbuildtest.Kernel, func(p *pod) error { return os.RemoveAll(p.toolkit + "/usr") }, "the toolkit has headers of no kernel; the node runs " + kbuildtest.Kernel, nil},
		"no compiler": {kbuildtest.Kernel, func(p *pod) error { return os.Remove(p.toolkit + "/bin/gcc-12") }, "no compiler for this kernel: it was built with gcc 12.2.0", nil},
		"half of the headers": {kbuildtest.Kernel, func(p *pod) error {
			return os.Remove(p.toolkit + "/usr/src/linux-headers-" + kbuildtest.Kernel + "/scripts/mod/modpost")
		}, "scripts/mod/modpost is missing", nil},
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

// TestSilent: a toolkit container that never comes, or dies and stays away, is not waited for without end.
func TestSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time of a bubble does not run while the machine is busy
		p := newPod(t, kbuildtest.Kernel, "")
		short := func(j *Job) { j.Timeout = 2 * time.Second }
		_, err := p.compile(short)
		assert.ErrorContains(t, err, "did not begin within 2s")
		go p.forge(func(a *answer) { a.Set = "" })
		begin := time.Now()
		_, err = p.compile(short)
		assert.ErrorContains(t, err, "it compiles for longer than 1h0m0s")
		assert.Equal(t, true, time.Since(begin) < buildDeadline+time.Minute)
		assert.Equalf(t, false, p.has(requestFile), "the request is not withdrawn")
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
		"missing": {func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, "mount one emptyDir there in both containers"},
		"no folder": {func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			return file
		}, "not a directory"},
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
