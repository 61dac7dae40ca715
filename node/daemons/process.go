package daemons

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a started daemon.
type process struct {
	main *member   // the program in the foreground, or the one that it left when it forked
	rest []*member // what else it started, see collect
	out  *tail
	// In the environment of all processes of this start, see strays; "" for a daemon that was found by its pid
	// file.
	mark   string
	since  uint64 // when it was started, in ticks
	detail string // see Spec.FindArgs
	log    logFile
}

// markName is the environment variable of the mark.
const markName = "DRIVER_ENTRYPOINT_START"

// startChild starts the program as leader of its own process group. It sets no parent-death signal, because
// that would be tied to the thread that starts the program. When this process dies, the shim gets the orphans
// and ends them.
func startChild(s Spec) (*process, error) {
	out, w, err := newTail()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for its output: %w", err)
	}
	defer w.Close()
	p := &process{out: out, since: ticks(), log: logFile{s.Log, time.Now()}}
	p.mark = fmt.Sprintf("%s=%d.%d.%s", markName, os.Getpid(), time.Now().UnixNano(), s.Name)
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(cmd.Environ(), p.mark), w, w
	if s.Env != nil {
		cmd.Env = append(slices.Clone(s.Env), p.mark)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		out.r.Close()
		<-out.done
		return nil, err
	}
	m := &member{pid: cmd.Process.Pid, child: true, done: make(chan struct{}), quit: make(chan struct{})}
	st, _ := stat(m.pid)
	m.begun = st.Begun // at worst that of a zombie: only the goroutine below reaps it
	go m.reap(cmd)
	p.main = m
	return p, nil
}

// reap waits for a child and kills the rest of its group. Until the child is reaped its number cannot belong
// to another process.
func (m *member) reap(cmd *exec.Cmd) {
	for errors.Is(unix.Waitid(unix.P_PID, m.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		continue
	}
	m.mu.Lock()
	_ = unix.Kill(-m.pid, unix.SIGKILL)
	_ = cmd.Wait() // the result is in ProcessState
	m.reaped, m.how = true, "it ended with "+cmd.ProcessState.String()
	m.mu.Unlock()
	close(m.done)
}

// launch starts a daemon and returns when the daemon is ready. When that fails it ends every process of the
// start; the error is a *StartError. patience limits the end of leftovers and of a daemon that does not
// become ready.
func launch(ctx, patience context.Context, s Spec, t timing) (*process, error) {
	ready, cancel := context.WithTimeout(ctx, s.StartWait)
	defer cancel()
	p, err := s.attempt(ready, patience, t)
	if err == nil {
		return p, nil
	}
	e := &StartError{Name: s.Name, Path: s.Path, Err: err}
	switch cancelled := ctx.Err(); {
	case cancelled != nil && !errors.Is(err, cancelled):
		e.Err = fmt.Errorf("%w: %w", cancelled, err)
	case cancelled == nil && ready.Err() != nil: // err may be the time limit of a call inside, which is one too
		e.Err = fmt.Errorf("not ready after %v: %w", s.StartWait, err)
	}
	if p != nil {
		err := p.terminate(patience, s.StopWait)
		e.Err, e.Output = errors.Join(e.Err, err), p.said()
	}
	return nil, e
}

// attempt does the work of launch without cleaning up: with an error it returns what was started until then.
func (s Spec) attempt(ctx, patience context.Context, t timing) (*process, error) {
	if s.Before != nil {
		if err := s.Before(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.endLeftover(patience); err != nil {
		return nil, err
	}
	detail := ""
	if s.FindArgs != nil {
		args, found, err := s.FindArgs(ctx)
		if err != nil {
			return nil, err
		}
		s.Args, detail = slices.Concat(s.Args, args), found
	}
	p, err := startChild(s)
	if err != nil {
		return nil, err
	}
	p.detail = detail
	if s.PIDFile != "" {
		if err := p.waitForked(ctx, s, t); err != nil {
			return p, err
		}
	}
	return p, p.waitReady(ctx, s, t)
}

// waitForked waits until the program ends with 0, and finds the daemon that its pid file then names.
func (p *process) waitForked(ctx context.Context, s Spec, t timing) error {
	child := p.main
	select {
	case <-child.done:
	case <-ctx.Done():
		return errors.New("it was to fork and go to the background, and did not")
	}
	if child.how != "it ended with exit status 0" {
		return errors.New(child.how)
	}
	fresh := func(pid int) bool { return pid != child.pid && startedSince(pid, p.since) }
	return until(ctx, t.poll, func() error {
		m, err := fromPIDFile(s.PIDFile, fresh)
		if err == nil {
			p.main = m
		}
		return err
	})
}

// waitReady waits until the daemon serves, or ends.
func (p *process) waitReady(ctx context.Context, s Spec, t timing) error {
	settled := time.Now().Add(t.settle)
	return until(ctx, t.poll, func() error {
		if p.main.gone() {
			return final{errors.New(p.main.how)}
		}
		if s.Socket == "" && s.PIDFile == "" && time.Now().Before(settled) {
			return errors.New("it has only just started")
		}
		return connect(ctx, s.Socket)
	})
}

// final is an error that does not go away by trying again.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// until calls f until it returns nil or a final error, or ctx ends, and returns the last error of f.
func until(ctx context.Context, every time.Duration, f func() error) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		err := f()
		if err == nil || errors.As(err, new(final)) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// endLeftover ends a daemon that a killed predecessor left and that would prevent the new one from starting.
// It also removes a pid file that names no running daemon, so that the pid file found after the start is the
// new one.
func (s Spec) endLeftover(patience context.Context) error {
	if s.PIDFile == "" {
		return nil
	}
	names := []string{s.Path}
	if target, err := filepath.EvalSymlinks(s.Path); err == nil {
		names = append(names, target)
	}
	m, err := fromPIDFile(s.PIDFile, func(pid int) bool {
		return slices.ContainsFunc(names, func(name string) bool { return runs(pid, name) })
	})
	if err == nil {
		old := &process{main: m}
		if err := old.terminate(patience, s.StopWait); err != nil {
			return fmt.Errorf("end the one that an earlier container left: %w", err)
		}
	}
	if err := os.Remove(s.PIDFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the pid file of an ended daemon: %w", err)
	}
	return nil
}
