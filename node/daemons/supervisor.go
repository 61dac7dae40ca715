package daemons

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// timing holds the supervisor's pauses; tests use shorter ones.
type timing struct {
	first, longest time.Duration // pause before a restart: doubles from first to longest
	stable         time.Duration // after so long a time up, the pause begins with first again
	running        time.Duration // a foreground program has started when it has run so long
	poll           time.Duration // interval between checks of a pid file or of readiness
}

func defaultTiming() timing {
	return timing{
		first:   time.Second,
		longest: time.Minute,
		stable:  time.Minute,
		running: 300 * time.Millisecond,
		poll:    100 * time.Millisecond,
	}
}

// Supervisor keeps daemons running until Stop. Its methods are safe for concurrent use.
type Supervisor struct {
	daemons []*daemon
	changed chan struct{}
	stop    sync.Once
}

// daemon is one supervised program. Its goroutine and States share the state.
type daemon struct {
	spec    Spec
	timing  timing
	log     *slog.Logger // has the daemon's name
	changed chan struct{}
	cancel  context.CancelFunc // stops the daemon
	endStop context.CancelFunc // ends the waiting of a stop, see supervise
	done    chan struct{}      // closed when the daemon is stopped
	last    *process           // that was stopped, valid after done; nil: none
	after   bool               // Spec.After has run
	needs   *daemon            // has to be ready while this one runs; nil: none
	on      *process           // of needs, on which this one was started
	tried   bool               // it was started before

	mu    sync.Mutex
	state State
	ready *process // nil: none
}

// Start starts the daemons in order, each when the one before it is ready. When a required one fails, it
// stops those that were started and returns a *StartError. A daemon that is not required is retried in the
// background. ctx is only for the start; the daemons run until Stop.
func Start(ctx context.Context, log *slog.Logger, specs ...Spec) (*Supervisor, error) {
	return start(ctx, log, defaultTiming(), specs)
}

func start(ctx context.Context, log *slog.Logger, t timing, specs []Spec) (*Supervisor, error) {
	s := &Supervisor{changed: make(chan struct{}, 1)}
	for _, spec := range specs {
		spec.StartWait = cmp.Or(spec.StartWait, time.Minute)
		spec.StopWait = cmp.Or(spec.StopWait, 10*time.Second)
		d := &daemon{
			spec: spec, timing: t, log: log.With("daemon", spec.Name), changed: s.changed, done: make(chan struct{}),
			state: State{Name: spec.Name, Effect: spec.Effect, Since: time.Now()},
		}
		if i := slices.IndexFunc(s.daemons, func(b *daemon) bool { return b.spec.Name == spec.Needs }); i >= 0 {
			d.needs = s.daemons[i]
		}
		var p *process
		var err error
		if d.needIsReady() {
			p, err = d.start(ctx, ctx)
		} else {
			d.down("it waits for " + spec.Needs)
		}
		if err != nil && (spec.Required || ctx.Err() != nil) {
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
			defer cancel()
			return nil, errors.Join(err, s.Stop(stopCtx))
		}
		stopCtx, endStop := context.WithCancel(context.WithoutCancel(ctx))
		life, cancel := context.WithCancel(stopCtx)
		d.cancel = cancel
		d.endStop = endStop
		s.daemons = append(s.daemons, d)
		go d.supervise(life, stopCtx, p)
	}
	return s, nil
}

// stopLimit limits the stop of the other daemons after a failed start.
const stopLimit = 15 * time.Second

// start launches the daemon once and records the result.
func (d *daemon) start(ctx, stopCtx context.Context) (*process, error) {
	began := time.Now()
	d.tried = true
	p, err := launch(ctx, stopCtx, d.spec, d.timing)
	if err != nil {
		reason := err.Error()
		if e := (*StartError)(nil); errors.As(err, &e) {
			reason = e.line()
		}
		d.down(reason)
		return nil, err
	}
	d.up(p)
	d.log.Info(
		"daemon ready",
		"pid",
		p.main.pid,
		"duration",
		time.Since(began).Round(time.Millisecond),
	)
	if d.spec.After != nil && !d.after {
		d.after = true
		ctx, cancel := context.WithTimeout(ctx, d.spec.StartWait)
		defer cancel()
		if err := d.spec.After(ctx); err != nil {
			d.log.Warn("daemon not set up", "error", err)
		}
	}
	return p, nil
}

// supervise keeps the daemon up until ctx ends; stopCtx limits the stop after that. p is nil when the first start
// failed.
func (d *daemon) supervise(ctx, stopCtx context.Context, p *process) {
	defer close(d.done)
	defer d.endStop()
	defer d.down("stopped")
	pause := d.timing.first
	for {
		if p != nil {
			began := time.Now()
			reason, stop := d.attend(ctx, p)
			if stop {
				_ = p.terminate(stopCtx, d.spec.StopWait) // Stop looks itself
				d.last = p
				return
			}
			d.down(reason)
			if err := p.terminate(stopCtx, d.spec.StopWait); err != nil {
				d.log.Warn("daemon not ended", "error", err)
			}
			if time.Since(began) >= d.timing.stable {
				pause = d.timing.first
			}
		}
		if !d.needIsReady() {
			d.log.Warn(
				"daemon waits for the one that it needs",
				"needs",
				d.spec.Needs,
				"reason",
				d.snapshot().Reason,
			)
		} else if d.tried {
			d.log.Warn("daemon is down, starting it again", "pause", pause, "reason", d.snapshot().Reason)
			if !Sleep(ctx, pause) {
				return
			}
			pause = min(2*pause, d.timing.longest)
		}
		for !d.needIsReady() {
			if !Sleep(ctx, watchInterval) {
				return
			}
		}
		if d.tried {
			d.set(func(s *State) { s.Restarts++ })
		}
		p, _ = d.start(ctx, stopCtx) // the state has the reason
	}
}

// attend waits until the process of the daemon has ended, the daemon has to be stopped, or the process of the daemon
// that it needs has ended.
func (d *daemon) attend(ctx context.Context, p *process) (reason string, stop bool) {
	var needed <-chan struct{}
	if d.on != nil {
		needed = d.on.main.done
	}
	select {
	case <-ctx.Done():
		return "", true
	case <-p.main.done:
		return p.endedHow(), false
	case <-needed:
		return "it is started again after " + d.spec.Needs + ", which has ended", false
	}
}

// needIsReady reports whether the daemon can be started now, and notes on which process of the needed one.
func (d *daemon) needIsReady() bool {
	if d.needs == nil {
		return true
	}
	d.needs.mu.Lock()
	defer d.needs.mu.Unlock()
	d.on = d.needs.ready
	return d.on != nil
}

func (d *daemon) up(p *process) {
	d.set(func(s *State) {
		s.PID = p.main.pid
		s.Running = true
		s.Ready = true
		s.Reason = ""
		s.Detail = p.detail
		s.Since = time.Now()
		d.ready = p
	})
}

func (d *daemon) down(reason string) {
	d.set(func(s *State) {
		if s.Ready {
			s.Since = time.Now()
		}
		s.PID = 0
		s.Running = false
		s.Ready = false
		s.Reason = reason
		d.ready = nil
	})
}

func (d *daemon) set(f func(*State)) {
	d.mu.Lock()
	f(&d.state)
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default: // the last change was not read yet: its reader sees this change, too
	}
}

func (d *daemon) snapshot() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

// States returns the states of all daemons, in the order of the specs.
func (s *Supervisor) States() []State {
	states := make([]State, len(s.daemons))
	for i, d := range s.daemons {
		states[i] = d.snapshot()
	}
	return states
}

// Changed returns a channel that gets a value after States has changed. Several changes may give one value.
// The channel is never closed.
func (s *Supervisor) Changed() <-chan struct{} { return s.changed }

// PIDs returns the ids of all processes that are supervised now.
func (s *Supervisor) PIDs() (all []int) {
	for _, st := range s.States() {
		if st.PID != 0 {
			all = append(all, st.PID)
		}
	}
	return all
}

// Stop ends the daemons, the last started first, each with SIGTERM and after its StopWait with SIGKILL. When
// ctx ends, all remaining daemons get SIGKILL at once, and Stop returns within about 2 s. The error names the
// daemons that did not end. A second call only looks whether they have ended now.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		defer context.AfterFunc(ctx, func() {
			for _, d := range s.daemons {
				d.endStop()
			}
		})()
		for _, d := range slices.Backward(s.daemons) {
			d.cancel()
			<-d.done
		}
	})
	var errs []error
	for _, d := range s.daemons {
		if d.last == nil {
			continue
		}
		err := d.last.remains()
		if err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", d.spec.Name, err))
		}
	}
	return errors.Join(errs...)
}
