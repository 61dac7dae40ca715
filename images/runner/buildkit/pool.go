package buildkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/driver-container/driver-container/images/runner"
)

// suspension is how long a daemon that died, or whose disk was full, gets no steps while there are others.
const suspension = 30 * time.Second

var errClosed = errors.New("the BuildKit runner was closed")

// member is a daemon of a pool and the pool's knowledge of it.
type member struct {
	address string
	daemon  daemon

	// Guarded by the pool's mu.
	worker worker    // as of the last answer
	steps  int       // our steps that run on it
	out    time.Time // it gets no steps until then
	last   error     // the reason for out
}

// runs reports whether it can run this architecture, and whether its machine is native to it.
func (m *member) runs(arch string) (ok, native bool) {
	return slices.Contains(m.worker.platforms, "linux/"+arch), m.worker.native == arch
}

// probeAll asks all daemons in parallel. It returns an error when none answers.
func (p *Pool) probeAll(ctx context.Context) error {
	errs := p.probe(ctx, p.members)
	for i, err := range errs {
		if err != nil && slices.Contains(errs, nil) {
			p.onLine(fmt.Sprintf("%v; the other daemons do its work, and it is asked again later", errs[i]))
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if slices.Contains(errs, nil) {
		return nil
	}
	return unavailable("connect to BuildKit", errs...)
}

// probe asks these daemons in parallel and returns each one's error.
func (p *Pool) probe(ctx context.Context, members []*member) []error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() {
			w, err := m.daemon.worker(ctx)
			errs[i] = err
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				m.out, m.last = time.Now().Add(suspension), err
				return
			}
			m.worker, m.out, m.last = w, time.Time{}, nil
		})
	}
	all.Wait()
	return errs
}

// Run implements runner.Runner. When a daemon cannot finish a step, because it died or its disk is full, the
// step runs on the next daemon; a command that failed does not run again. The error says what happened on
// each daemon.
func (p *Pool) Run(ctx context.Context, s runner.Step, dir string, output func(line string)) error {
	if err := s.Check(); err != nil {
		return err
	}
	ctx, leave, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer leave()
	root, err := newRoot(s.Arch, s.Layers)
	if err != nil {
		return fmt.Errorf("step %s: %w", s.Name, err)
	}
	tried := map[*member]*attempts{}
	for {
		m, err := p.acquire(ctx, s, tried)
		if err != nil {
			return err
		}
		lines := &serial{output: output}
		err = m.daemon.solve(ctx, job{step: s, root: root, spool: p.spool, dir: dir, output: lines.line})
		lines.end()
		p.release(m)
		if err == nil {
			return nil
		}
		err = errors.Join(err, empty(dir))
		var trouble *daemonError
		if context.Cause(ctx) != nil || !errors.As(err, &trouble) {
			return err
		}
		p.suspend(m, err)
		if tried[m] == nil {
			tried[m] = &attempts{}
		}
		tried[m].add(err, trouble.full)
		if output != nil {
			output(err.Error())
		}
	}
}

// attempts records what happened to a step on one daemon.
type attempts struct {
	lost int
	full bool
	err  error // error of the last attempt
}

func (a *attempts) add(err error, full bool) { a.lost, a.full, a.err = a.lost+1, full, err }

// exhausted reports whether the daemon must not get the step again. A daemon that was lost gets it once more
// if no other daemon can take it and this one answers again. A daemon with a full disk does not.
func (a *attempts) exhausted() bool { return a != nil && (a.full || a.lost > 1) }

// begin counts a step as running, and cancels its context when the pool is closed.
func (p *Pool) begin(ctx context.Context) (context.Context, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errClosed
	}
	p.steps.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-p.closing:
			cancel(errClosed)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-watching
		p.steps.Done()
	}, nil
}

// acquire chooses the daemon for a step among those that can run it and have not failed it: native before
// emulated architecture, then the least loaded, then the first in the order of addresses. When all of them
// are left out, take asks them again, so that a restarted daemon is used at once.
func (p *Pool) acquire(ctx context.Context, s runner.Step, tried map[*member]*attempts) (*member, error) {
	for range 2 {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		m, suspended := p.choose(s.Arch, tried)
		if m != nil {
			return m, nil
		}
		if len(suspended) == 0 {
			break
		}
		p.probe(ctx, suspended)
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return nil, p.noDaemonError(s, tried)
}

// choose returns the best daemon, with the step already counted, or else the suitable daemons that are left
// out.
func (p *Pool) choose(arch string, tried map[*member]*attempts) (best *member, suspended []*member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var fit []*member
	for _, m := range p.members {
		ok, _ := m.runs(arch)
		switch {
		case tried[m].exhausted():
		case now.Before(m.out):
			suspended = append(suspended, m)
		case ok:
			fit = append(fit, m)
		}
	}
	if len(fit) == 0 {
		return nil, suspended
	}
	best = slices.MinFunc(fit, func(a, b *member) int {
		_, na := a.runs(arch)
		_, nb := b.runs(arch)
		if na != nb {
			if na {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.steps*b.worker.parallelism, b.steps*a.worker.parallelism)
	})
	best.steps++
	return best, nil
}

func (p *Pool) release(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.steps--
}

func (p *Pool) suspend(m *member, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.out, m.last = time.Now().Add(suspension), why
}

// noDaemonError returns the error that says why no daemon is left for a step.
func (p *Pool) noDaemonError(s runner.Step, tried map[*member]*attempts) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var reasons []error
	for _, m := range p.members {
		ok, _ := m.runs(s.Arch)
		a := tried[m]
		if a != nil {
			reasons = append(reasons, a.err)
		}
		switch {
		case m.last != nil && (a == nil || m.last != a.err): //nolint:errorlint // compares values, not kinds
			reasons = append(reasons, m.last)
		case a == nil && !ok:
			reasons = append(reasons, fmt.Errorf("buildkitd at %s runs %s only: add a daemon on a machine of linux/%s, or let this one emulate it (binfmt_misc)",
				m.address, strings.Join(slices.Compact(slices.Clone(m.worker.platforms)), ", "), s.Arch))
		}
	}
	return unavailable("step "+s.Name+": no BuildKit daemon is left to run it", reasons...)
}

// empty removes the files that a failed attempt left in the folder of the result.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	if err != nil {
		return fmt.Errorf("empty %s after a failed attempt: %w", dir, err)
	}
	return nil
}

// serial passes lines to a caller that must not be called by two goroutines at the same time, nor after Run
// has returned.
type serial struct {
	mu     sync.Mutex
	output func(string)
}

func (l *serial) line(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.output != nil {
		l.output(s)
	}
}

func (l *serial) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.output = nil
}
