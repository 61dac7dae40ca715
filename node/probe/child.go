package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxOutput limits what is kept of a program's output. The rest is read and discarded, so that the program
// does not block.
const maxOutput = 1 << 20

// killTimeout is how long a child may take to disappear after SIGKILL, and its output to end after the child
// has ended.
const killTimeout = 2 * time.Second

// HungError says that a program did not answer in time. The program and its whole process group were killed.
// Abandoned says that the process is still there: it hangs in the kernel, in a call to a GPU that does not
// return, until the GPU answers or the node restarts.
type HungError struct {
	Command   string
	PID       int
	After     time.Duration
	Abandoned bool
}

func (e *HungError) Error() string {
	if e.Abandoned {
		return fmt.Sprintf("%s (pid %d) did not answer within %v and cannot be killed: a GPU hangs in the kernel; look at the kernel's log for "+
			"NVRM lines, and restart the node", e.Command, e.PID, e.After)
	}
	return fmt.Sprintf("%s did not answer within %v and was killed: a GPU may hang; look at the kernel's log for NVRM lines", e.Command, e.After)
}

// child is a running program, the leader of its own process group.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{} // closed when the child has ended and is reaped
	mu             sync.Mutex    // orders kill and reaping: the number of a reaped process may belong to another process
	reaped         bool
}

// output keeps the beginning of what is written to it.
type output struct{ bytes.Buffer }

func (o *output) Write(p []byte) (int, error) {
	o.Buffer.Write(p[:min(len(p), maxOutput-o.Len())])
	return len(p), nil
}

// result is how a program ended and what it printed.
type result struct {
	code           int // the exit code, or 128 plus the signal's number when a signal ended the program
	stdout, stderr []byte
}

// Run runs a program of the driver, or one that waits for the kernel. It returns the exit code, or 128 plus the
// number of the signal that ended the program, and what it printed. After ctx or the timeout it kills the
// program and what that started; the error is then a *HungError or that of ctx.
func Run(ctx context.Context, path string, args, env []string, timeout time.Duration) (code int, output string, err error) {
	r, _, err := run(ctx, path, args, env, timeout)
	return r.code, string(r.stdout) + string(r.stderr), err
}

// run starts the program and waits until it ends, ctx ends or the timeout is over. With an Abandoned
// *HungError it returns the child that is still there.
func run(ctx context.Context, path string, args, env []string, timeout time.Duration) (result, *child, error) {
	c := &child{cmd: exec.Command(path, args...), done: make(chan struct{})}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = env, &c.stdout, &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = killTimeout
	if err := c.cmd.Start(); err != nil {
		return result{}, nil, fmt.Errorf("start %s: %w", path, err)
	}
	go c.wait()
	began := time.Now()
	select {
	case <-c.done:
		return c.result(), nil, nil
	case <-ctx.Done():
	case <-time.After(timeout):
	}
	c.kill()
	hung := &HungError{Command: path, PID: c.cmd.Process.Pid, After: time.Since(began).Round(time.Millisecond), Abandoned: !c.waitGone(killTimeout)}
	switch {
	case hung.Abandoned:
		return result{}, c, hung
	case ctx.Err() != nil:
		return result{}, nil, fmt.Errorf("wait for %s: %w", path, ctx.Err())
	}
	return result{}, nil, hung
}

// wait kills the child's process group before it reaps the child: this ends the child's own children, and until
// the child is reaped nobody else can have the group's number.
func (c *child) wait() {
	for errors.Is(unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		continue
	}
	c.kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.cmd.Wait() // the result is read from ProcessState
	c.reaped = true
	close(c.done)
}

func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	}
}

func (c *child) waitGone(limit time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(limit):
		return false
	}
}

func (c *child) result() result {
	r := result{stdout: c.stdout.Bytes(), stderr: c.stderr.Bytes(), code: c.cmd.ProcessState.ExitCode()}
	if s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		r.code = 128 + int(s.Signal())
	}
	return r
}
