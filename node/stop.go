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

// ending is a stop: it takes down what is up, or leaves it whole.
type ending struct {
	*Node
	up       *Served
	cause    error          // why the start or the service failed; nil: the stop was asked for
	begin    time.Time      // when it was asked for; zero: now
	restored *RollbackError // set if an older driver was restored, or could not be
	blocked  bool           // it has found the driver in use
}

// stop returns the cause, joined with what went wrong with the stop.
func (e *ending) stop(stopCtx context.Context) error {
	reason := ""
	if e.cause == nil {
		e.up.dropRestore()
	} else {
		e.Log.Error("stopping after a failure", "error", e.cause)
		reason = e.cause.Error()
	}
	e.Hardware.EndUsage()
	err := e.markers.NotReady()
	if err != nil {
		e.warn("markers: %v", err)
	}
	e.Status.Stop(reason)
	done := "driver unloaded, root unmounted"
	switch {
	case len(e.up.Steps) == 0:
		done = "stopped; there was no driver to unload"
	case e.up.Driver.Source == status.FromHost:
		done = "root unmounted; the modules stay: they are of the node's own system"
	}
	err = e.takeDown(stopCtx)
	if err != nil {
		return e.leave(stopCtx, err)
	}
	return e.stopped(stopCtx, done)
}

// dropRestore lets the older driver stay away: a stop was asked for, or the new one is up.
func (up *Served) dropRestore() {
	up.Steps = slices.DeleteFunc(up.Steps, func(s step) bool { return s == restoreStep })
}

// takeDown tries until it succeeds or the time is over; then it returns the last refusal. How much
// time there is it finds out after the first refusal: most stops need no time.
func (e *ending) takeDown(stopCtx context.Context) error {
	const enough = 3 // attempts for errors that do not pass by waiting, even if no time is left
	begin := e.begin
	if begin.IsZero() {
		begin = time.Now()
	}
	var end, logged time.Time
	for failures := 0; ; {
		err := e.tryDown(stopCtx)
		if err == nil {
			return nil
		}
		if end.IsZero() {
			end = begin.Add(e.limit(stopCtx))
		}
		busy, inUse := errors.AsType[*modules.InUseError](err)
		if inUse {
			e.showBlocked(busy)
		} else {
			failures++
			if failures < enough {
				continue
			}
		}
		if time.Since(logged) >= logEvery {
			logged = time.Now()
			e.Log.Warn("the driver cannot be taken down yet", "error", err)
			status.WriteTermination(e.cfg.Termination, err, e.Log)
		}
		left := time.Until(end)
		if left <= 0 || !daemons.Sleep(stopCtx, min(tick, left)) {
			return err
		}
	}
}

func (e *ending) showBlocked(busy *modules.InUseError) {
	if !e.blocked {
		e.blocked = true
		e.Status.Count(countBlocked)
	}
	e.Status.Explain(busy.Error(), busy.Holders)
}

// tryDown takes the steps down, newest first. It looks for holders before it stops anything. If the
// modules cannot be unloaded nevertheless, the daemons above them are started again. The steps have
// their own deadlines: the end of the waiting (ctx) never interrupts one.
func (e *ending) tryDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(e.cfg.Grace, time.Minute))
	defer cancel()
	if slices.Contains(e.up.Steps, modulesStep) {
		var ours []int
		if e.up.Daemons != nil {
			ours = e.up.Daemons.PIDs()
		}
		err := e.stack().Free(ctx, e.up.Driver, ours)
		if err != nil {
			return err
		}
	}
	daemonsEnded := false
	for len(e.up.Steps) > 0 {
		last := len(e.up.Steps) - 1
		name := e.up.Steps[last]
		err := e.down(ctx, name)
		if err != nil {
			if name == modulesStep && daemonsEnded {
				err = errors.Join(err, e.daemonsAgain(ctx))
			}
			return err
		}
		e.up.Steps = e.up.Steps[:last]
		daemonsEnded = name == daemonsStep
	}
	return nil
}

// down takes one step down, whole or not at all.
func (e *ending) down(ctx context.Context, name step) error {
	switch name {
	case daemonsStep:
		return e.stopDaemons(ctx)
	case modulesStep:
		return e.unloadModules(ctx)
	case rootStep:
		return errors.Join(e.Roots.ClearFirmware(), e.Roots.Unmount(ctx))
	case restoreStep:
		back, err := restore(ctx, e.Node, e.up.Replaced)
		e.restored = &RollbackError{Old: e.up.Replaced.Version, Restore: err}
		e.up.Driver = back.Driver
	}
	return nil // trying again to restore would not help
}

func (e *ending) stopDaemons(ctx context.Context) error {
	if e.up.Daemons == nil {
		return nil
	}
	err := e.up.Daemons.Stop(ctx)
	if err != nil {
		return fmt.Errorf("stop the daemons: %w", err)
	}
	e.up.Daemons = nil
	e.Status.Daemons(nil)
	return nil
}

func (e *ending) daemonsAgain(ctx context.Context) error {
	up, err := e.startDaemons(ctx, *e.up)
	*e.up = up
	err = cmp.Or(err, up.DaemonsErr)
	if err != nil {
		return fmt.Errorf("put daemons up again: %w", err)
	}
	return nil
}

func (e *ending) unloadModules(ctx context.Context) error {
	if e.up.Driver.Source == status.FromHost {
		e.removeNodes(e.up.Driver.Nodes)
		return nil
	}
	err := e.unload(ctx, e.up.Driver)
	if err != nil {
		return err
	}
	e.up.Previous = nil // nothing of it is left
	return nil
}

// stopped ends a life in which everything that this instance put up was taken down. An older driver
// may still be there: it was not touched, or it was put back. done is what is logged if nothing is
// left.
func (e *ending) stopped(ctx context.Context, done string) error {
	loaded, err := isLoaded(e.Kernel, "nvidia")
	if err != nil {
		return errors.Join(e.cause, err)
	}
	byHost := loaded && e.up.Driver.Source == status.FromHost
	if !loaded || byHost {
		// A signal may have come before the phase recover removed what a dead predecessor left.
		_, err = e.recover(context.WithoutCancel(ctx), e.up.Previous)
		err = errors.Join(err, e.markers.Remove())
		e.Status.Unrecord()
	}
	e.Status.Clear()
	switch {
	case e.cause != nil:
		return errors.Join(e.failed(), err)
	case loaded && !byHost:
		e.Status.Set(status.Detached, "stopped before it was replaced")
		e.Log.Info("stopped; the driver that was loaded before is left as it is")
		return nil
	}
	e.Log.Info(done) //nolint:sloglint // one of three constants
	if err != nil {  // the successor has to know what is left
		return err
	}
	return e.Status.Remove()
}

// failed sets in the status how a failed start leaves the node, and returns why it failed.
func (e *ending) failed() error {
	state := status.Failed
	cause := e.cause
	if e.restored != nil {
		e.restored.New = e.Info.Driver
		e.restored.Err = cause
		cause = e.restored
		if e.restored.Restore == nil {
			state = status.Restored
		}
	}
	e.Status.Fail(cause)
	e.Status.End(state, cause.Error())
	status.WriteTermination(e.cfg.Termination, cause, e.Log)
	return cause
}

// leave ends a life whose driver stays on the node.
func (e *ending) leave(ctx context.Context, refusal error) error {
	status.WriteTermination(e.cfg.Termination, refusal, e.Log)
	if e.cause != nil {
		e.Status.Fail(e.cause)
	}
	loaded, err := isLoaded(e.Kernel, "nvidia")
	if err == nil && !loaded {
		e.Status.Unrecord()
		e.Status.End(status.Failed, refusal.Error())
		return errors.Join(e.cause, refusal)
	}
	reason := fmt.Sprintf("left in place: %v", refusal)
	e.Log.Warn("left in place", "error", refusal)
	ends := daemons.Ending(e.Status.Get().Daemons)
	if ends != "" {
		reason += "; " + ends
		e.warn("%s: start the next one soon", ends)
	}
	e.repairRoot(ctx)
	e.Status.Record(e.up.Driver)
	e.Status.End(status.Detached, reason)
	inUse := errors.As(refusal, new(*modules.InUseError))
	if e.cause == nil && inUse && e.cfg.OnBusy != config.BusyFail {
		return nil
	}
	return errors.Join(e.cause, fmt.Errorf("%w: %w", ErrLeft, refusal))
}

// repairRoot serves the root again if a failure left modules without one: the holders of the
// modules need it.
func (e *ending) repairRoot(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	layers, err := e.Roots.Mounted()
	loaded, unknown := isLoaded(e.Kernel, "nvidia")
	if err != nil || unknown != nil || layers > 0 || !loaded {
		return
	}
	e.up.Driver.RootDir = cmp.Or(e.up.Driver.RootDir, e.up.Record.RootDir)
	r := root{Node: e.Node, Staged: e.up.Staged}
	err = r.mount(ctx, e.up.Driver.RootDir)
	if err != nil {
		e.warn("the driver root could not be served again: %v", err)
		return
	}
	e.up.Driver.Firmware = r.setFirmware()
}
