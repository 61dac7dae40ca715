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

// leaveOut is how long a daemon that died, or whose disk was full, gets nothing while others are there.
const leaveOut = 30 * time.Second

var errClosed = errors.New("the BuildKit runner was closed")

// member is a daemon of a pool and what the pool knows of it.
type member struct {
	address string
	daemon  daemon

	// Guarded by the pool's mu.
	worker worker    // as of the last answer
	steps  int       // in flight, ours
	out    time.Time // left out until then
	last   error     // why it was left out
}

// runs tells whether it can run this architecture, and whether its machine is of it.
func (m *member) runs(arch string) (ok, native bool) {
	return slices.Contains(m.worker.platforms, "linux/"+arch), m.worker.native == arch
}

// ask asks all daemons at once. It fails when none answers.
func (p *Pool) ask(ctx context.Context) error {
	errs := p.probe(ctx, p.members)
	for i, err := range errs {
		if err != nil && slices.Contains(errs, nil) {
			p.say(fmt.Sprintf("%v; the other daemons do its work, and it is asked again later", errs[i]))
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

// probe asks these daemons at once and returns each one's error.
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
				m.out, m.last = time.Now().Add(leaveOut), err
				return
			}
			m.worker, m.out, m.last = w, time.Time{}, nil
		})
	}
	all.Wait()
	return errs
}

// Run implements runner.Runner. A step that a daemon could not finish, because it died or its disk is full, is done again
// by the next one; a command that failed is not. The error says what became of it on each daemon.
func (p *Pool) Run(ctx context.Context, s runner.Step, dir string, say func(line string)) error {
	if err := s.Check(); err != nil {
		return err
	}
	ctx, leave, err := p.enter(ctx)
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
		m, err := p.take(ctx, s, tried)
		if err != nil {
			return err
		}
		voice := &voice{say: say}
		err = m.daemon.solve(ctx, job{step: s, root: root, spool: p.spool, dir: dir, say: voice.line})
		voice.silence()
		p.give(m)
		if err == nil {
			return nil
		}
		err = errors.Join(err, empty(dir))
		var trouble *troubleError
		if context.Cause(ctx) != nil || !errors.As(err, &trouble) {
			return err
		}
		p.leaveOut(m, err)
		if tried[m] == nil {
			tried[m] = &attempts{}
		}
		tried[m].add(err, trouble.full)
		if say != nil {
			say(err.Error())
		}
	}
}

// attempts are what became of a step on one daemon.
type attempts struct {
	lost int
	full bool
	err  error // the last one's
}

func (a *attempts) add(err error, full bool) { a.lost, a.full, a.err = a.lost+1, full, err }

// spent: a daemon that was lost gets the step once more when nobody else can have it and it answers again; one whose disk is
// full does not.
func (a *attempts) spent() bool { return a != nil && (a.full || a.lost > 1) }

// enter counts a step in, and makes it end when the pool is closed.
func (p *Pool) enter(ctx context.Context) (context.Context, func(), error) {
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

// take chooses the daemon for a step: of those that can run it and have not failed it, one whose machine is of the architecture
// before one that emulates it, then the least loaded, then the one named first. When all of them are left out they are
// asked again: one that was started anew is of use at once.
func (p *Pool) take(ctx context.Context, s runner.Step, tried map[*member]*attempts) (*member, error) {
	for range 2 {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		m, resting := p.choose(s.Arch, tried)
		if m != nil {
			return m, nil
		}
		if len(resting) == 0 {
			break
		}
		p.probe(ctx, resting)
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return nil, p.nobody(s, tried)
}

// choose returns the best daemon, its step already counted, or else those that might do but are left out.
func (p *Pool) choose(arch string, tried map[*member]*attempts) (best *member, resting []*member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var fit []*member
	for _, m := range p.members {
		ok, _ := m.runs(arch)
		switch {
		case tried[m].spent():
		case now.Before(m.out):
			resting = append(resting, m)
		case ok:
			fit = append(fit, m)
		}
	}
	if len(fit) == 0 {
		return nil, resting
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

func (p *Pool) give(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.steps--
}

func (p *Pool) leaveOut(m *member, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.out, m.last = time.Now().Add(leaveOut), why
}

// nobody says why no daemon is left for a step.
func (p *Pool) nobody(s runner.Step, tried map[*member]*attempts) error {
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
		case m.last != nil && (a == nil || m.last != a.err): //nolint:errorlint // is it the same value, not the same kind
			reasons = append(reasons, m.last)
		case a == nil && !ok:
			reasons = append(reasons, fmt.Errorf("buildkitd at %s runs %s only: add a daemon on a machine of linux/%s, or let this one emulate it (binfmt_misc)",
				m.address, strings.Join(slices.Compact(slices.Clone(m.worker.platforms)), ", "), s.Arch))
		}
	}
	return unavailable("step "+s.Name+": no BuildKit daemon is left to run it", reasons...)
}

// empty removes what a failed attempt left in the folder of the result.
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

// voice hands lines to a caller that must not be called by two goroutines at once, nor after Run has returned.
type voice struct {
	mu  sync.Mutex
	say func(string)
}

func (v *voice) line(s string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.say != nil {
		v.say(s)
	}
}

func (v *voice) silence() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.say = nil
}
