package chroot_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/runnertest"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/runner/chroot"
)

const victimEnv = "CHROOT_TEST_VICTIM" // work folder of the process that is killed

// TestVictim is the process that TestKilledOwner kills.
func TestVictim(t *testing.T) {
	work := os.Getenv(victimEnv)
	if work == "" {
		t.Skip("it is run by TestKilledOwner")
	}
	r := openIn(t, work)
	step := runnertest.Step(t, nil, runnertest.Sleep)
	t.Error(r.Run(t.Context(), step, t.TempDir(), func(line string) { os.Stdout.WriteString(line + "\n") }))
}

// victim starts a process that runs a step, and returns when the step's command runs.
func victim(t *testing.T, work string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestVictim$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), victimEnv+"="+work, "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd
}

// TestKilledOwner: when driver-build is killed without warning, nothing of the step runs or stays mounted.
// The next driver-build removes the folder; no other one removes it while its owner is alive.
func TestKilledOwner(t *testing.T) {
	t.Parallel()
	_, work := open(t)
	cmd := victim(t, work)
	if n := len(processes(t, work)); n < 3 {
		t.Errorf("%d processes of the step", n)
	}
	openIn(t, work)
	if left := leftovers(t, work); len(left) != 1 {
		t.Errorf("folders of a living owner: %q", left)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	at := time.Now()
	for len(processes(t, work)) > 0 && time.Since(at) < time.Minute {
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("nothing runs %v after the kill", time.Since(at))
	nothingRuns(t, work)
	if left := leftovers(t, work); len(left) != 1 {
		t.Errorf("folders of a dead owner, before another one starts: %q", left)
	}
	openIn(t, work)
	nothingLeft(t, work)
}

// TestUnprivileged runs tests of this package as a user without any privilege, in a user namespace.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	tool.Real(t, "it takes some seconds")
	tool.AsRoot(t, "it changes its user")
	const nobody = 65534
	dir, err := os.MkdirTemp("", "chroot-nobody-") //nolint:usetesting // t.TempDir lies in a folder that only this user can enter
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary, tmp := filepath.Join(dir, "tests"), filepath.Join(dir, "tmp")
	require.NoError(t, errors.Join(exec.Command("cp", require.Value(os.Executable())(t), binary).Run(), os.Mkdir(tmp, 0o755), os.Chown(tmp, nobody, nobody), os.Chmod(dir, 0o755)))
	cmd := exec.Command(binary, "-test.v", "-test.timeout=4m",
		"-test.run=^(TestConformance|TestWorld|TestMounts|TestCancelLeavesNothing|TestRemove)$")
	cmd.Dir = tmp
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP: TestConformance") {
		t.Skipf("this machine gives ordinary users no namespaces:\n%s", out)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestSupported: the probe leaves nothing.
func TestSupported(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	if err := chroot.Supported(); err != nil {
		t.Skip(err)
	}
	nothingLeft(t, os.TempDir())
}
