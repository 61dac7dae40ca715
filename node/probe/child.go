package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxOutput bounds what is kept of a program's output; the rest is read and thrown away, so that the program does not block.
const maxOutput = 1 << 20

// patience is how long a child may take to disappear after SIGKILL, and its output to end after its own end.
const patience = 2 * time.Second

// HungError says that a program did not answer in time. It was killed with its whole group; Abandoned says that even this did
// not end it: it hangs in the kernel, in a call to a GPU that does not come back, until the GPU answers or the node restarts.
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

// child is a running program, leader of its own group.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr *output
	done           chan struct{} // closed when it has ended and is reaped
	mu             sync.Mutex    // between kill and reaping: a reaped number may be somebody else's
	reaped         bool
}

// result is how a program ended and what it printed.
type result struct {
	code           int // exit code; 128 and the signal's number when a signal ended it
	stdout, stderr []byte
}

// run waits for the program at most until ctx ends or the timeout is over. A *HungError with Abandoned comes with the child
// that is still there.
func run(ctx context.Context, path string, args, env []string, timeout time.Duration) (result, *child, error) {
	c, err := startChild(path, args, env)
	if err != nil {
		return result{}, nil, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	began := time.Now()
	select {
	case <-c.done:
		return c.result(), nil, nil
	case <-ctx.Done():
	case <-timer.C:
	}
	c.kill()
	hung := &HungError{Command: path, PID: c.cmd.Process.Pid, After: time.Since(began).Round(time.Millisecond), Abandoned: !c.gone(patience)}
	c.stdout.end(0)
	c.stderr.end(0)
	if hung.Abandoned {
		return result{}, c, hung
	}
	if ctx.Err() != nil {
		return result{}, nil, fmt.Errorf("wait for %s: %w", path, ctx.Err())
	}
	return result{}, nil, hung
}

func startChild(path string, args, env []string) (*child, error) {
	c := &child{cmd: exec.Command(path, args...), done: make(chan struct{})}
	c.cmd.Env = env
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if c.stdout, err = newOutput(&c.cmd.Stdout); err != nil {
		return nil, err
	}
	if c.stderr, err = newOutput(&c.cmd.Stderr); err == nil {
		err = c.cmd.Start()
	}
	c.stdout.started()
	c.stderr.started()
	if err != nil {
		c.stdout.end(0)
		c.stderr.end(0)
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	go c.wait()
	return c, nil
}

// wait is the only goroutine that an abandoned child leaves. Before the child is reaped its group is killed: what it
// started ends with it, and as long as its number is taken the group's is its own.
func (c *child) wait() {
	for {
		err := unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.cmd.Wait() // the state is read from ProcessState
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

func (c *child) gone(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

func (c *child) result() result {
	r := result{stdout: c.stdout.end(patience), stderr: c.stderr.end(patience), code: c.cmd.ProcessState.ExitCode()}
	if s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		r.code = 128 + int(s.Signal())
	}
	return r
}

// output reads one stream of a child. Its own pipe and not os/exec's, whose readers stay as long as any process has the
// other end: here the reader ends when end says so.
type output struct {
	r, w *os.File
	text []byte
	read chan struct{}
}

func newOutput(to *io.Writer) (*output, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for a program's output: %w", err)
	}
	o := &output{r: r, w: w, read: make(chan struct{})}
	*to = w
	go o.collect()
	return o, nil
}

func (o *output) collect() {
	defer close(o.read)
	text, err := io.ReadAll(io.LimitReader(o.r, maxOutput))
	o.text = text
	if err == nil {
		_, _ = io.Copy(io.Discard, o.r)
	}
}

// started closes this process's copy of the writing end.
func (o *output) started() {
	if o != nil {
		o.w.Close()
	}
}

// end returns what was read, and stops reading after the time given, though somebody may still have the other end.
func (o *output) end(limit time.Duration) []byte {
	if o == nil {
		return nil
	}
	_ = o.r.SetReadDeadline(time.Now().Add(limit)) // pipes of os.Pipe have deadlines
	<-o.read
	o.r.Close()
	return o.text
}
