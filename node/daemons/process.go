package daemons

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// process is a started daemon.
type process struct {
	main *member   // the program in the foreground, or the one that it left when it forked
	rest []*member // what else it started, see collect
	out  *tail     // nil for a daemon that was found by its pid file
	// In the environment of all processes of this start, see strays; "" for a daemon that was found
	// by its pid file.
	mark   string
	since  uint64    // when it was started, in ticks
	began  time.Time // the same
	detail string    // see Spec.FindArgs
	log    string    // see Spec.Log
}

// markName is the environment variable of the mark.
const markName = "DRIVER_ENTRYPOINT_START"

func startChild(s Spec) (*process, error) {
	out, w, err := newTail()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for its output: %w", err)
	}
	defer w.Close()
	p := &process{out: out, since: ticks(), began: time.Now(), log: s.Log}
	p.mark = fmt.Sprintf("%s=%d.%d.%s", markName, os.Getpid(), p.began.UnixNano(), s.Name)
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Env = append(cmd.Environ(), p.mark)
	cmd.Stdout = w
	cmd.Stderr = w
	if s.Env != nil {
		cmd.Env = append(slices.Clone(s.Env), p.mark)
	}
	p.main, err = startMember(cmd)
	if err != nil {
		out.r.Close()
		<-out.done
		return nil, err
	}
	return p, nil
}

// launch starts a daemon and returns when the daemon is ready. When that fails it ends every
// process of the start; the error is a *StartError. stopCtx limits the end of leftovers and of a
// daemon that does not become ready.
func launch(ctx, stopCtx context.Context, s Spec, t timing) (*process, error) {
	ready, cancel := context.WithTimeout(ctx, s.StartWait)
	defer cancel()
	p, err := s.attempt(ready, stopCtx, t)
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
		err := p.terminate(stopCtx, s.StopWait)
		e.Err = errors.Join(e.Err, err)
		e.Output = p.lastLines()
	}
	return nil, e
}

// attempt does the work of launch without cleaning up: with an error it returns what was started
// until then.
func (s Spec) attempt(ctx, stopCtx context.Context, t timing) (*process, error) {
	if s.Before != nil {
		if err := s.Before(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.endLeftover(stopCtx); err != nil {
		return nil, err
	}
	detail := ""
	if s.FindArgs != nil {
		args, found, err := s.FindArgs(ctx)
		if err != nil {
			return nil, err
		}
		s.Args = slices.Concat(s.Args, args)
		detail = found
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
	err = p.waitReady(ctx, s, t)
	if p.main.gone() {
		err = errors.New(p.main.how)
	}
	return p, err
}

// waitForked waits until the program ends with 0, and finds the daemon that its pid file then
// names.
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
	return Until(ctx, t.poll, func() error {
		m, err := fromPIDFile(s.PIDFile, fresh)
		if err != nil {
			return err
		}
		p.main = m
		return nil
	})
}

// waitReady waits until the daemon serves, or ends.
func (p *process) waitReady(ctx context.Context, s Spec, t timing) error {
	running := time.Now().Add(t.running)
	return Until(ctx, t.poll, func() error {
		switch {
		case p.main.gone():
			return nil
		case s.Socket == "" && s.PIDFile == "" && time.Now().Before(running):
			return errors.New("it has only just started")
		}
		return connect(ctx, s.Socket)
	})
}

// endLeftover ends a daemon that a killed predecessor left and that would prevent the new one from
// starting. It also removes a pid file that names no running daemon, so that the pid file found
// after the start is the new one.
func (s Spec) endLeftover(stopCtx context.Context) error {
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
		if err := old.terminate(stopCtx, s.StopWait); err != nil {
			return fmt.Errorf("end the one that an earlier container left: %w", err)
		}
	}
	if err := os.Remove(s.PIDFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the pid file of an ended daemon: %w", err)
	}
	return nil
}

// connect checks that a process listens on a unix socket; "" is no socket and no error.
func connect(ctx context.Context, socket string) error {
	if socket == "" {
		return nil
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("its socket does not answer: %w", err)
	}
	return conn.Close()
}
