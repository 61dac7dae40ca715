package lock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/cli"
)

// With this variable set the test binary takes the lock in the folder that the variable names, and keeps it
// until its standard input ends.
const hold = "LOCK_TEST_HOLD"

func TestMain(m *testing.M) {
	dir := os.Getenv(hold)
	if dir == "" {
		goleak.VerifyTestMain(m)
		return
	}
	o := options(dir)
	o.Self = Holder{Pod: "gpu/one", Image: "driver:1", Host: "node1"}
	o.Timeout = 2 * time.Minute
	o.Log = cli.Log(os.Stderr, "text")
	l, err := Acquire(context.Background(), o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Release(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

func options(dir string) Options {
	return Options{Run: dir, Poll: 20 * time.Millisecond}
}

// process is another instance in a real process.
type process struct {
	*exec.Cmd
	out *bufio.Scanner
	in  io.Closer
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	out := require.Value(cmd.StdoutPipe())(t)
	in := require.Value(cmd.StdinPipe())(t)
	require.NoError(t, cmd.Start())
	p := &process{cmd, bufio.NewScanner(out), in}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return p
}

// line waits for the process to print a line.
func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.out.Scan() {
		t.Fatal("the other process ended")
	}
	return p.out.Text()
}

func startInstance(t *testing.T, dir string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hold+"="+dir, "GORACE=atexit_sleep_ms=0")
	return start(t, cmd)
}

// startNVIDIAScript does with the legacy file what NVIDIA's script does: open it as descriptor 3 with
// truncation, flock it, write the pid.
func startNVIDIAScript(t *testing.T, dir string) *process {
	t.Helper()
	return start(t, exec.Command("sh", "-c", `exec 3> "$0/nvidia-driver.pid"
if flock -n 3; then echo $$ >&3; echo held $$; cat >/dev/null; else echo refused; fi`, dir))
}
