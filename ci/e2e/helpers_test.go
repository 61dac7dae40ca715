package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// commandLimit bounds each command; the slowest one compiles kernel modules.
const commandLimit = 12 * time.Minute

// thinDriver is the driver of images that journeys make of systems other than Debian.
const thinDriver = "535.261.03"

// journey skips or starts a journey and returns the repository's root.
func journey(t *testing.T) string {
	t.Helper()
	tool.Real(t, "it needs root, the network and what ci/e2e/setup installs")
	if os.Getuid() != 0 {
		t.Fatal("the real tier needs root, for chroot and mounts")
	}
	start := time.Now()
	t.Cleanup(func() { t.Logf("journey took %s", time.Since(start).Round(time.Second)) })
	return repository(t)
}

func repository(t *testing.T) string {
	t.Helper()
	return require.Value(filepath.Abs("../.."))(t)
}

// workspace returns the folder that journeys share, for images that several of them use.
func workspace(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DRIVER_E2E_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "driver-e2e")
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// scratch makes an empty folder inside the workspace, so that hard links between such folders work; it is
// removed at the end of the test.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(workspace(t), "scratch-*") //nolint:usetesting // hard links need the same file system
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() {
		assert.NoErrorf(t, os.RemoveAll(dir), "clean up")
	})
	return dir
}

// program returns the path of driver-build. DRIVER_E2E_BIN names another folder of binaries to test, such as
// a release's.
func program(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DRIVER_E2E_BIN")
	if dir == "" {
		dir = filepath.Join(repository(t), "bin")
	}
	return filepath.Join(dir, "driver-build")
}

// command is a program to run. Zero values mean: in the workspace, with this process's environment.
type command struct {
	dir  string
	env  []string // added to the environment
	args []string
}

// result is the result of a command.
type result struct {
	command        []string
	code           int
	stdout, stderr string
	took           time.Duration
}

func (r result) String() string {
	return "command: " + strings.Join(r.command, " ") + "\nexit code: " + itoa(r.code) + " after " + r.took.Round(10*time.Millisecond).String() +
		"\nstdout:\n" + tail(r.stdout) + "\nstderr:\n" + tail(r.stderr)
}

// tail keeps failure messages readable: errors are at the end.
func tail(s string) string {
	const most = 6000
	if len(s) <= most {
		return s
	}
	return "[...]" + s[len(s)-most:]
}

// do runs a command to its end, whatever its exit code is.
func (c command) do(t *testing.T) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	if cmd.Dir == "" {
		cmd.Dir = workspace(t)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	r := result{command: c.args, code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String(), took: time.Since(start)}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, r)
	}
	return r
}

// want runs a command and fails the test if it ends with another exit code.
func (c command) want(t *testing.T, code int) result {
	t.Helper()
	r := c.do(t)
	if r.code != code {
		t.Fatalf("want exit code %d\n%s", code, r)
	}
	return r
}

// sh runs a program, fails the test if the program fails, and returns its stdout without the last newline.
func sh(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSuffix(command{args: args}.want(t, 0).stdout, "\n")
}
