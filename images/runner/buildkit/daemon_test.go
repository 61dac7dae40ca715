package buildkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/runner"
)

// realTier skips a test of the real tier when that was not requested or cannot run.
func realTier(t *testing.T) {
	t.Helper()
	tool.Real(t, "it starts real BuildKit daemons, with root and runc")
	tool.AsRoot(t, "for buildkitd with runc")
	if _, err := exec.LookPath("runc"); err != nil {
		t.Skip("there is no runc: ", err)
	}
}

// built builds bin/buildkitd, once.
var built = sync.OnceValues(func() (string, error) {
	top, err := filepath.Abs("../../..")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command(filepath.Join(top, "ci/buildkitd"), "build").CombinedOutput(); err != nil {
		return "", fmt.Errorf("ci/buildkitd build: %w\n%s", err, out)
	}
	return filepath.Join(top, "bin/buildkitd"), nil
})

// testDaemon is a real buildkitd that a test has started.
type testDaemon struct {
	address, dir string
	cmd          *exec.Cmd
	kill         func() // with everything that it runs, like a crash of its machine
}

// startDaemon starts a buildkitd with a root of its own and kills it at the end of the test.
func startDaemon(t *testing.T, dir string, flags ...string) *testDaemon {
	t.Helper()
	program := require.Value(built())(t)
	if dir == "" {
		dir = t.TempDir() // short enough for a socket: 107 bytes
	}
	args := append([]string{program, "--config", os.DevNull, "--root", dir + "/root", "--addr", "unix://" + dir + "/s", "--otel-socket-path", dir + "/otel", "--cdi-disabled",
		"--containerd-worker=false", "--oci-worker-binary=runc", "--oci-worker-net=host", "--oci-worker-snapshotter=" + cmp.Or(os.Getenv("BUILDKITD_SNAPSHOTTER"), "auto")}, flags...)
	return launch(t, dir, `mkdir -p /run/runc && mount -t tmpfs runc /run/runc && BUILDKIT_STEP_LOG_MAX_SIZE=-1 BUILDKIT_STEP_LOG_MAX_SPEED=-1 exec "$0" "$@"`, args...)
}

// launch starts a daemon in namespaces of processes and mounts of its own, so that nothing of it is left, and waits
// until the socket in its folder answers.
func launch(t *testing.T, dir, script string, args ...string) *testDaemon {
	t.Helper()
	d := &testDaemon{dir: dir, address: "unix://" + dir + "/s"}
	d.cmd = exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script}, args...)...)
	log := require.Value(os.Create(dir + "/log"))(t)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	require.NoError(t, errors.Join(d.cmd.Start(), log.Close()))
	d.kill = sync.OnceFunc(func() {
		d.cmd.Process.Kill()
		d.cmd.Wait()
	})
	t.Cleanup(func() {
		d.kill()
		if text, _ := os.ReadFile(dir + "/log"); t.Failed() {
			t.Logf("log of %s:\n%s", d.address, text[max(0, len(text)-8000):])
		}
	})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err := reachable(t.Context(), d.address); err == nil {
			return d
		} else if time.Now().After(end) {
			t.Fatalf("buildkitd did not start: %v", err)
		}
	}
}

// steps counts the processes of this daemon's steps, whose root is in its folder.
func (d *testDaemon) steps(t *testing.T) (n int) {
	t.Helper()
	for _, f := range require.Value(filepath.Glob("/proc/[0-9]*/mountinfo"))(t) {
		b, _ := os.ReadFile(f)
		for line := range strings.Lines(string(b)) {
			if fields := strings.Fields(line); fields[4] == "/" && strings.Contains(line, d.dir+"/root/") {
				n++
			}
		}
	}
	return n
}

// connect opens a runner and closes it at the end of the test.
func connect(t *testing.T, address string) *Daemon {
	t.Helper()
	p := require.Value(New(t.Context(), Options{Address: address, Work: t.TempDir(), OnLine: func(line string) { t.Log(line) }}))(t)
	t.Cleanup(func() {
		assert.NoError(t, p.Close())
	})
	return p
}

// noLeaks checks at the end of a test that none of its goroutines is left.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// run executes a step and returns the lines that it printed.
func run(t *testing.T, p *Daemon, s runner.Step) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var lines []string
	err := p.Run(ctx, s, t.TempDir(), func(line string) { lines = append(lines, line) })
	return lines, err
}
