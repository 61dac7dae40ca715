package kbuild

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A cancelled command gets SIGTERM and this time to end, then SIGKILL and this time again. The sum is below
// the 2 s within which a node has to stop.
const (
	termWait = 900 * time.Millisecond
	killWait = 700 * time.Millisecond
)

// run runs a command in a process group of its own and never leaves a process of that group behind. When ctx
// ends, the whole group ends, and the error is ctx's cause.
func run(ctx context.Context, cmd *exec.Cmd) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = termWait
	if err := cmd.Start(); err != nil {
		return err
	}
	group := cmd.Process.Pid
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	err, ended := error(nil), true
	select {
	case err = <-done:
	case <-ctx.Done():
		ended = stop(group, done)
	}
	// Processes that the first process left: none after a success, compilers when it was killed.
	if unix.Kill(-group, unix.SIGKILL) == nil && ended {
		waitGone(group)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // the command succeeded; a process that it left only kept our pipe open
	}
	return err
}

// stop ends the group. Its signals reach every process of the group; those of exec.CommandContext would reach
// only the first. stop reports whether the command ended. A command that the kernel does not release (a hung
// disk) stays behind, with SIGKILL pending.
func stop(group int, done <-chan error) bool {
	_ = unix.Kill(-group, unix.SIGTERM) // fails only when the group is empty
	select {
	case <-done:
		return true
	case <-time.After(termWait):
	}
	_ = unix.Kill(-group, unix.SIGKILL)
	select {
	case <-done:
		return true
	case <-time.After(killWait):
		return false
	}
}

// waitGone waits until the group has no member. Processes that nothing reaps stay members; waitGone then
// gives up after its time.
func waitGone(group int) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(killWait)
	defer end.Stop()
	for unix.Kill(-group, 0) == nil {
		select {
		case <-tick.C:
		case <-end.C:
			return
		}
	}
}

// limitedWriter passes the first bytes on and drops the rest, so that a program that prints without end does
// not block.
type limitedWriter struct {
	w    io.Writer
	left int64
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if n := min(int64(len(p)), l.left); n > 0 {
		l.left -= n
		if _, err := l.w.Write(p[:n]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
