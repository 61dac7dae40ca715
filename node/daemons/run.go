package daemons

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// maxOutput limits what is kept of a program's output. The rest is read and discarded, so that the
// program does not block.
const maxOutput = 1 << 20

// killTimeout is how long a process may take to disappear after SIGKILL, and the output of a
// program to end after the program has ended.
const killTimeout = 2 * time.Second

// HungError says that a program did not answer in time. The program and its whole process group
// were killed. Abandoned says that the process is still there: it hangs in the kernel, in a call to
// a GPU that does not return, until the GPU answers or the node restarts.
type HungError struct {
	Command   string
	After     time.Duration
	Abandoned bool
	child     *member
}

func (e *HungError) Error() string {
	if e.Abandoned {
		return fmt.Sprintf(
			"%s (pid %d) did not answer within %v and cannot be killed: a GPU hangs in the kernel; look at the kernel's log for "+
				"NVRM lines, and restart the node",
			e.Command,
			e.child.pid,
			e.After,
		)
	}
	return fmt.Sprintf(
		"%s did not answer within %v and was killed: a GPU may hang; look at the kernel's log for NVRM lines",
		e.Command,
		e.After,
	)
}

// Still says whether the program is still there.
func (e *HungError) Still() bool { return e.Abandoned && !e.child.gone() }

// Result is how a program ended and what it printed.
type Result struct {
	Code           int // the exit code, or 128 plus the number of the signal that ended the program
	Stdout, Stderr []byte
}

// Output is all that it printed.
func (r Result) Output() string { return string(r.Stdout) + string(r.Stderr) }

// Run runs a program of the driver, or one that waits for the kernel, as the leader of its own
// process group. After ctx or the timeout it kills the program and what that started; the error is
// then a *HungError or that of ctx.
func Run(
	ctx context.Context,
	path string,
	args, env []string,
	timeout time.Duration,
) (Result, error) {
	cmd := exec.Command(path, args...)
	stdout := bounded.Buffer{Limit: maxOutput}
	stderr := bounded.Buffer{Limit: maxOutput}
	cmd.Env = env
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	cmd.WaitDelay = killTimeout
	began := time.Now()
	child, err := startMember(cmd)
	if err != nil {
		return Result{}, fmt.Errorf("start %s: %w", path, err)
	}
	select {
	case <-child.done:
		r := Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.Kept, Stderr: stderr.Kept}
		if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			r.Code = 128 + int(s.Signal())
		}
		return r, nil
	case <-ctx.Done():
	case <-time.After(timeout):
	}
	child.signal(unix.SIGKILL)
	hung := &HungError{
		Command: path,
		After:   time.Since(began).Round(time.Millisecond),
		child:   child,
	}
	select {
	case <-child.done:
	case <-time.After(killTimeout):
		hung.Abandoned = true
	}
	if !hung.Abandoned && ctx.Err() != nil {
		return Result{}, fmt.Errorf("wait for %s: %w", path, ctx.Err())
	}
	return Result{}, hung
}
