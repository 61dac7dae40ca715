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

// A cancelled command gets SIGTERM and this time to end, then SIGKILL and this time again. The sum
// is below the 2 s within which a node has to stop.
const (
	termWait = 900 * time.Millisecond
	killWait = 700 * time.Millisecond
)

// runGroup runs a command in a process group of its own and never leaves a process of that group
// behind. When ctx ends, the whole group ends, and the error is ctx's cause. A command that the
// kernel does not release (a hung disk) stays behind, with SIGKILL pending.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = termWait
	if err := cmd.Start(); err != nil {
		return err
	}
	// These signals reach every process of the group; those of exec.CommandContext would reach only
	// the first.
	signal := func(s unix.Signal) (reached bool) { return unix.Kill(-cmd.Process.Pid, s) == nil }
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = cmd.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		signal(unix.SIGTERM)
		select {
		case <-done:
		case <-time.After(termWait):
		}
	}
	// Processes that the first process left: none after a success, compilers when it was killed.
	// Those that nothing reaps stay members of the group.
	for end := time.Now().Add(killWait); signal(unix.SIGKILL) && time.Now().Before(end); {
		<-time.After(5 * time.Millisecond)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // the command succeeded; a process that it left only kept our pipe open
	}
	return err
}

// limitedWriter passes the first bytes on and drops the rest, so that a program that prints without
// end does not block.
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
