package buildkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/gate"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/runnertest"
	"github.com/driver-container/driver-container/images/runner"
)

// realTier skips a test of the real tier when that was not requested or cannot run.
func realTier(t *testing.T) {
	t.Helper()
	gate.Real(t, "it starts real BuildKit daemons, with root and runc")
	gate.Root(t, "for buildkitd with runc")
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
	once         sync.Once
}

// startDaemon starts a buildkitd with a root of its own and stops it at the end of the test. The daemon must
// leave nothing behind.
func startDaemon(t *testing.T, dir string, flags ...string) *testDaemon {
	t.Helper()
	program := require.Value(built())(t)
	if dir == "" {
		dir = t.TempDir() // short enough for a socket: 107 bytes
	}
	d := &testDaemon{dir: dir, address: "unix://" + dir + "/s"}
	for i, f := range flags {
		if f == "--addr" {
			d.address = flags[i+1]
		}
	}
	args := append([]string{"--config", os.DevNull, "--root", dir + "/root", "--addr", "unix://" + dir + "/s", "--otel-socket-path", dir + "/otel", "--cdi-disabled", "--containerd-worker=false",
		"--oci-worker-binary=runc", "--oci-worker-net=host", "--oci-worker-snapshotter=" + snapshotter()}, flags...)
	d.cmd = exec.Command(program, args...)
	d.cmd.Env = append(os.Environ(), "BUILDKIT_STEP_LOG_MAX_SIZE=-1", "BUILDKIT_STEP_LOG_MAX_SPEED=-1")
	d.launch(t)
	return d
}

// launch starts the daemon's command and waits until the socket in its folder answers.
func (d *testDaemon) launch(t *testing.T) {
	t.Helper()
	log := require.Value(os.Create(d.dir + "/log"))(t)
	d.cmd.Stdout, d.cmd.Stderr = log, log
	require.NoError(t, errors.Join(d.cmd.Start(), log.Close()))
	t.Cleanup(func() { d.end(t) })
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err := reachable(t.Context(), "unix://"+d.dir+"/s"); err == nil {
			return
		} else if time.Now().After(end) {
			text, _ := os.ReadFile(d.dir + "/log")
			t.Fatalf("buildkitd did not start: %v\n%s", err, text)
		}
	}
}

func snapshotter() string {
	if s := os.Getenv("BUILDKITD_SNAPSHOTTER"); s != "" {
		return s
	}
	return "auto"
}

// kill ends the daemon like a crash.
func (d *testDaemon) kill() {
	d.once.Do(func() {
		d.cmd.Process.Kill()
		d.cmd.Wait()
	})
}

func (d *testDaemon) end(t *testing.T) {
	t.Helper()
	d.once.Do(func() {
		d.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(20*time.Second, func() {
			t.Error("buildkitd did not end by SIGTERM")
			d.cmd.Process.Kill()
		})
		defer timer.Stop()
		d.cmd.Wait()
	})
	if t.Failed() {
		text, _ := os.ReadFile(d.dir + "/log")
		t.Logf("log of %s:\n%s", d.address, text[max(0, len(text)-8000):])
	}
	// A killed daemon leaves containers and mounts on the machine. Cleaning them up is not its client's task.
	for _, pid := range d.processes(t) {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.HasPrefix(f[4], d.dir+"/root/") {
			syscall.Unmount(f[4], syscall.MNT_DETACH)
		}
	}
	ids, _ := filepath.Glob("/run/runc/*/state.json")
	for _, state := range ids {
		if b, _ := os.ReadFile(state); bytes.Contains(b, []byte(d.dir+"/root/")) {
			exec.Command("runc", "delete", "--force", filepath.Base(filepath.Dir(state))).Run()
		}
	}
}

// processes returns the processes of this daemon's steps: their root is one of its bundles.
func (d *testDaemon) processes(t *testing.T) []int {
	t.Helper()
	var list []int
	files := require.Value(filepath.Glob("/proc/[0-9]*/mountinfo"))(t)
	self, _ := os.ReadFile("/proc/self/mountinfo")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || len(b) == 0 || bytes.Equal(b, self) || !bytes.Contains(b, []byte(d.dir+"/root/")) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(f, "/")[2]); err == nil {
			list = append(list, pid)
		}
	}
	return list
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

// step returns a step that runs the conformance suite's program.
func step(t *testing.T, program v1.Layer, args ...string) runner.Step {
	t.Helper()
	return runnertest.Step(t, program, nil, args...)
}
