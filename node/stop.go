package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// stop takes down what is up, or leaves it whole. cause is nil or ErrStopped if the stop was
// requested. Otherwise it is the error of the start or the service, and is joined with the error of
// the stop.
func (n *Node) stop(stopCtx context.Context, cause error) error {
	if errors.Is(cause, ErrStopped) {
		cause = nil
	}
	if cause == nil {
		n.dropRestore()
	} else {
		n.log.Error("stopping after a failure", "error", cause)
	}
	n.blocked = false
	n.Hardware.EndUsage()
	if err := n.markers.NotReady(); err != nil {
		n.warn("markers: %v", err)
	}
	n.status.Change(func(st *status.Snapshot) {
		st.State = status.Stopping
		st.Ready = false
		st.Phase = ""
		if cause != nil {
			st.Reason = cause.Error()
		}
	})
	done := "driver unloaded, root unmounted"
	switch {
	case len(n.up) == 0:
		done = "stopped; there was no driver to unload"
	case n.driver.Source == status.FromHost:
		done = "root unmounted; the modules stay: they are of the node's own system"
	}
	if err := n.takeDown(stopCtx, cause); err != nil {
		return n.leave(stopCtx, cause, err)
	}
	return n.stopped(stopCtx, cause, done)
}

// stopLimit returns the time that a stop may wait: the grace period minus a margin for what comes
// after the waiting. A failed start waits for holders for a shorter time, because nobody asked it
// to stop.
func (n *Node) stopLimit(stopCtx context.Context, cause error) time.Duration {
	if cause == nil && n.cfg.OnBusy == config.BusyWait {
		return forever
	}
	grace := n.cfg.Grace
	if grace == 0 {
		grace = less(n.podGrace(stopCtx))
	}
	if cause != nil {
		return min(less(grace), 10*tick)
	}
	return less(grace)
}

// less returns a time minus a margin.
func less(d time.Duration) time.Duration { return d - min(5*time.Second, d/4) }

// usualGrace is the terminationGracePeriodSeconds of a pod that sets none, such as the GPU
// Operator's.
const usualGrace = 30 * time.Second

// podGrace returns the time from SIGTERM to SIGKILL, the usual one if it is not known.
func (n *Node) podGrace(stopCtx context.Context) time.Duration {
	if n.askGrace == nil {
		return usualGrace
	}
	const wait = 2 * time.Second // the answer may be that it is short
	ctx, cancel := context.WithTimeout(stopCtx, wait)
	defer cancel()
	grace, err := n.askGrace(ctx)
	if err != nil {
		n.log.Info(
			"the grace period of this pod is not known, the usual one is assumed",
			"duration",
			usualGrace,
			"error",
			err,
		)
		return usualGrace
	}
	return grace
}

// forever is the time that config.BusyWait waits: in practice until SIGKILL.
const forever = 100 * 365 * 24 * time.Hour

// takeDown tries until it succeeds or the time is over; then it returns the last refusal. How much
// time there is it finds out after the first refusal: most stops need no time.
func (n *Node) takeDown(stopCtx context.Context, cause error) error {
	const enough = 3 // attempts for errors that do not pass by waiting, even if no time is left
	begin := n.now()
	if asked := n.asked.Load(); asked != nil { // a module that hung has taken a part of the time
		begin = *asked
	}
	var end, said time.Time
	for failures := 0; ; {
		err := n.tryDown(stopCtx)
		if err == nil {
			return nil
		}
		if end.IsZero() {
			end = begin.Add(n.stopLimit(stopCtx, cause))
		}
		if busy, ok := errors.AsType[*modules.InUseError](err); ok {
			n.countBlocked()
			n.status.Change(
				func(st *status.Snapshot) { st.Holders, st.Reason = busy.Holders, busy.Error() },
			)
		} else if failures++; failures < enough {
			continue
		}
		if n.now().Sub(said) >= 30*time.Second {
			said = n.now()
			n.log.Warn("the driver cannot be taken down yet", "error", err)
			n.writeTermination(err)
		}
		if left := end.Sub(n.now()); !daemons.Sleep(stopCtx, min(tick, left)) || left <= tick {
			return err
		}
	}
}

// step is something that is up: how to take it down, and how to put it up again if another step
// cannot be taken down.
type step struct {
	name string
	down func(ctx context.Context) error // whole or not at all
	// nil: it cannot be put back, so everything below it must be taken down, too
	redo func(ctx context.Context) error
}

// tryDown takes the steps down, newest first. It looks for holders before it stops anything. If a
// step fails nevertheless, the steps that were taken down are put up again. The steps have their
// own deadlines: the end of the waiting (ctx) never interrupts one.
func (n *Node) tryDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(n.cfg.Grace, time.Minute))
	defer cancel()
	if slices.ContainsFunc(n.up, func(s step) bool { return s.name == modulesStep }) {
		if err := n.free(ctx); err != nil {
			return err
		}
	}
	for i, s := range slices.Backward(n.up) {
		err := s.down(ctx)
		if err == nil {
			continue
		}
		later := n.up[i+1:]
		// the driver is removed: it can only continue
		if slices.ContainsFunc(later, func(s step) bool { return s.redo == nil }) {
			n.up = n.up[:i+1]
			return err
		}
		for _, s := range later {
			if again := s.redo(ctx); again != nil {
				err = errors.Join(err, fmt.Errorf("put %s up again: %w", s.name, again))
			}
		}
		return err
	}
	n.up = nil
	return nil
}

// stopped ends a life in which everything that this instance put up was taken down. An older driver
// may still be there: it was not touched, or it was put back. done is what is logged if nothing is
// left.
func (n *Node) stopped(ctx context.Context, cause error, done string) error {
	loaded, err := n.isLoaded("nvidia")
	if err != nil {
		return errors.Join(cause, err)
	}
	byHost := loaded && n.driver.Source == status.FromHost
	if !loaded || byHost {
		// A signal may have come before the phase recover removed what a dead predecessor left.
		err = errors.Join(n.recover(context.WithoutCancel(ctx)), n.markers.Remove())
		n.status.Change(func(st *status.Snapshot) { st.Up = nil })
	}
	n.status.Change(func(st *status.Snapshot) {
		st.Holders = nil
		st.Daemons = nil
		st.GPUs = nil
		st.Companions = nil
	})
	switch {
	case cause != nil:
		cause = n.failed(cause)
		n.writeTermination(cause)
	case loaded && !byHost:
		n.status.Set(status.Detached, "stopped before it was replaced")
		n.log.Info("stopped; the driver that was loaded before is left as it is")
	default:
		n.log.Info(done) //nolint:sloglint // one of three constants
		if err == nil {  // otherwise the successor has to know what is left
			err = n.status.Remove()
		}
	}
	return errors.Join(cause, err)
}

// failed sets in the status how a failed start leaves the node.
func (n *Node) failed(cause error) error {
	state := status.Failed
	if n.restored != nil {
		n.restored.New = n.want.Driver
		n.restored.Err = cause
		cause = n.restored
		if n.restored.Restore == nil {
			state = status.Restored
		}
	}
	n.status.Change(func(st *status.Snapshot) {
		st.State, st.Ready, st.Reason, st.LastFailure = state, false, cause.Error(), n.failure(
			cause,
		)
	})
	return cause
}

// failure returns the status's record of a failed start or service.
func (n *Node) failure(cause error) *status.Failure {
	return status.NewFailure(n.now(), n.Info.Driver, n.cfg.PodText(), cause)
}

// writeTermination writes an error to the pod's termination message, and logs a failure to do so.
func (n *Node) writeTermination(err error) {
	if werr := status.WriteTermination(n.cfg.Termination, err); werr != nil {
		n.log.Warn("no termination message", "error", werr)
	}
}

// leave ends a life whose driver stays on the node.
func (n *Node) leave(ctx context.Context, cause, refusal error) error {
	n.writeTermination(refusal)
	if cause != nil {
		n.status.Change(func(st *status.Snapshot) { st.LastFailure = n.failure(cause) })
	}
	if loaded, err := n.isLoaded("nvidia"); err == nil && !loaded {
		n.status.Change(func(st *status.Snapshot) {
			st.State, st.Ready, st.Up, st.Reason = status.Failed, false, nil, refusal.Error()
		})
		return errors.Join(cause, refusal)
	}
	reason := fmt.Sprintf("left in place: %v", refusal)
	n.log.Warn("left in place", "error", refusal)
	ending := daemons.Ending(n.status.Get().Daemons)
	if ending != "" {
		reason += "; " + ending
		n.warn("%s: start the next one soon", ending)
	}
	n.repairRoot(ctx)
	n.showDriver()
	n.status.Change(func(st *status.Snapshot) { // the daemons end with this container
		st.State = status.Detached
		st.Ready = false
		st.Reason = reason
		st.Daemons = nil
	})
	if cause == nil && errors.As(refusal, new(*modules.InUseError)) &&
		n.cfg.OnBusy != config.BusyFail {
		return nil
	}
	return errors.Join(cause, fmt.Errorf("%w: %w", ErrLeft, refusal))
}

// repairRoot serves the root again if a failure left modules without one: the holders of the
// modules need it.
func (n *Node) repairRoot(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	layers, err := n.Roots.Mounted()
	if loaded, lerr := n.isLoaded("nvidia"); err != nil || lerr != nil || !loaded || layers > 0 {
		return
	}
	n.driver.RootDir = cmp.Or(n.driver.RootDir, n.record.RootDir)
	err = n.mountRoot(ctx, n.driver.RootDir)
	if err != nil {
		n.warn("the driver root could not be served again: %v", err)
		return
	}
	n.setFirmware()
}
