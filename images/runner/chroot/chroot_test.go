package chroot_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/runnertest"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/chroot"
)

func TestMain(m *testing.M) {
	chroot.Init()
	os.Exit(m.Run())
}

func open(t *testing.T) (*chroot.Runner, string) {
	t.Helper()
	if err := chroot.Supported(); err != nil {
		t.Skip(err)
	}
	work := t.TempDir()
	return openIn(t, work), work
}

func openIn(t *testing.T, work string) *chroot.Runner {
	t.Helper()
	return require.Value(chroot.New(work))(t)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	runnertest.Conform(t, func(t *testing.T) runner.Runner {
		r, _ := open(t)
		return r
	})
}

// leftovers returns what steps have left in a work folder.
func leftovers(t *testing.T, work string) []string {
	t.Helper()
	return require.Value(filepath.Glob(filepath.Join(work, "*")))(t)
}

// TestWorld: the part of a step's view that is particular to a chroot.
func TestWorld(t *testing.T) {
	t.Parallel()
	r, work := open(t)
	// The process that starts driver-build may have left files open in it.
	leak, err := syscall.Open("/etc/passwd", syscall.O_RDONLY, 0) // without close-on-exec
	require.NoError(t, err)
	defer syscall.Close(leak)
	dir := t.TempDir()
	const script = "cat /proc/$$/status >/out/status; cat /proc/$$/limits >/out/limits; ls /proc/$$/fd >/out/open; :"
	require.NoError(t, r.Run(t.Context(), runnertest.Step(t, nil, script), dir, nil))
	got := runnertest.Files(t, dir)
	for _, want := range []string{"NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n"} {
		assert.Contains(t, got["status"], want)
	}
	if os.Getuid() == 0 {
		assert.Contains(t, got["status"], "Groups:\t \n")
	}
	for fd := range strings.FieldsSeq(got["open"]) {
		if fd > "2" {
			t.Errorf("the command has %s open", fd)
		}
	}
	limits := strings.Join(strings.Fields(got["limits"]), " ")
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	assert.Contains(t, limits, "Max core file size 0 0")
	assert.Contains(t, limits, fmt.Sprintf("Max open files %[1]d %[1]d", min(files.Max, 65536)))
	nothingLeft(t, work)
}

// TestMounts: the mounts of a step, and that it cannot change the kernel's settings, which user 0 owns.
func TestMounts(t *testing.T) {
	t.Parallel()
	r, _ := open(t)
	dir := t.TempDir()
	links := runnertest.Layer(t, "proc -> /etc", "dev -> ../../../../dev", "tmp = a file", "etc/", "etc/hostname = x")
	require.NoError(t, r.Run(t.Context(), runnertest.Step(t, []v1.Layer{links}, "cut -d ' ' -f 5 /proc/self/mountinfo >/out/mounts"), dir, nil))
	want := "/\n/tmp\n/dev\n/dev/null\n/dev/zero\n/dev/full\n/dev/random\n/dev/urandom\n/proc\n"
	assert.Same(t, want, runnertest.Files(t, dir)["mounts"])
	for _, file := range []string{"/proc/sys/kernel/domainname", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/proc/self/oom_score_adj"} {
		if _, err := os.Stat(file); err != nil {
			continue // this kernel has no such file
		}
		err := r.Run(t.Context(), runnertest.Step(t, nil, "echo 0 >"+file), t.TempDir(), nil)
		if f, ok := errors.AsType[*runner.FailedError](err); !ok || f.Code != 1 || !strings.Contains(strings.Join(f.Tail, ""), "Read-only") {
			t.Errorf("write %s: %v", file, err)
		}
	}
	// Process 1 is a program of the machine and has files of the machine open.
	for _, file := range []string{"/proc/1/exe", "/proc/1/root/.", "/proc/1/fd/0", "/proc/1/environ"} {
		err := r.Run(t.Context(), runnertest.Step(t, nil, "cat "+file), t.TempDir(), nil)
		if err == nil || !strings.Contains(err.Error(), "Permission denied") {
			t.Errorf("read %s: %v", file, err)
		}
	}
}

// TestRefusedOutput: the command moves the output folder away, or puts a link to the machine's folder in its place.
func TestRefusedOutput(t *testing.T) {
	t.Parallel()
	r, work := open(t)
	for what, script := range map[string]string{"gone": "mv /out /other", "no dir": "rm -r /out; ln -s /etc /out"} {
		dir := t.TempDir()
		err := r.Run(t.Context(), runnertest.Step(t, nil, ": >/out/x; "+script), dir, nil)
		if err == nil || len(runnertest.Files(t, dir)) > 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	nothingLeft(t, work)
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	r, _ := open(t)
	step := runnertest.Step(t, nil, "")
	step.Arch = "s390x"
	err := r.Run(t.Context(), step, t.TempDir(), nil)
	assert.ErrorIs(t, err, runner.ErrUnavailable)
	assert.ErrorContains(t, err, "BuildKit")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Errorf(t, assert.Err(chroot.New(file)), "a file to work in")
}

// TestCancelLeavesNothing: after a cancel no process of the step runs, nothing is mounted, the folder is
// removed.
func TestCancelLeavesNothing(t *testing.T) {
	t.Parallel()
	r, work := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := r.Run(ctx, runnertest.Step(t, nil, runnertest.Sleep), t.TempDir(), func(string) {
		if n := len(processes(t, work)); n < 3 { // process 1, the command and its child
			t.Errorf("%d processes of the step", n)
		}
		cancel()
	})
	assert.ErrorIs(t, err, context.Canceled)
	nothingRuns(t, work)
	nothingLeft(t, work)
}

func nothingLeft(t *testing.T, work string) {
	t.Helper()
	assert.Equal(t, 0, len(leftovers(t, work)))
}

func nothingRuns(t *testing.T, work string) {
	t.Helper()
	assert.Equal(t, 0, len(processes(t, work)))
	if b := require.Value(os.ReadFile("/proc/self/mountinfo"))(t); strings.Contains(string(b), work) {
		t.Errorf("still mounted: %s", b)
	}
}

// processes returns the numbers of the processes that have a mount of the work folder in their namespace. Every process
// of a step has one, whatever its name, because its root is a mount.
func processes(t *testing.T, work string) (found []string) {
	t.Helper()
	inside := strings.TrimPrefix(work, os.TempDir()) // which may be a file system of its own
	for _, file := range require.Value(filepath.Glob("/proc/[0-9]*/mountinfo"))(t) {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), inside) {
			found = append(found, file)
		}
	}
	return found
}
