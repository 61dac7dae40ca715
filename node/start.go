package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// Run runs a whole life: start, watch until ctx ends, stop. When stopCtx ends, the stop waits for nothing any
// more; a step that has begun is finished. The result nil means that the driver is stopped, or left in
// place as configured. Errors: config.ErrConfig, lock.ErrHeld, *preflight.BlockedError,
// *buildtree.NoHeadersError, *kbuild.CompileError, *kmod.RefusedError, *RollbackError, ErrLeft, ErrOther.
func (n *Node) Run(ctx, stopCtx context.Context) error {
	end := make(chan struct{})
	defer close(end)
	err := signsOfLife(n.instanceFile, n.Status.Get().Instance, end)
	if err != nil {
		return err
	}
	var asked atomic.Pointer[time.Time]
	defer context.AfterFunc(ctx, func() {
		now := time.Now()
		asked.Store(&now)
	})()
	lock, up, err := n.start(ctx)
	if lock == nil { // it never had the node: there is nothing to take down
		if ctx.Err() != nil {
			n.Log.Info("stopped while waiting for the lock; nothing was touched")
			return nil
		}
		n.Status.Lock(status.Failed, err.Error())
		status.WriteTermination(n.cfg.Termination, err, n.Log)
		return err
	}
	if err == nil {
		n.watch(ctx, lock, &up)
	}
	other := errors.Is(err, ErrOther) && ctx.Err() == nil
	if other || ctx.Err() != nil && !errors.Is(err, kmod.ErrStuck) {
		err = nil // an interruption by a signal is no failure
	}
	e := ending{Node: n, up: &up, cause: err}
	if at := asked.Load(); at != nil {
		e.begin = *at // a module that hung has taken a part of the time
	}
	err = e.stop(stopCtx)
	n.Ended()
	err = errors.Join(err, lock.Release())
	if other && err == nil {
		return ErrOther
	}
	return err
}

// start brings the driver up, below the shim (node/shim), which is process 1 and outlives this
// process; Run watches afterwards. Before replace nothing that works is touched. The root comes
// before the modules: the kernel looks for the driver's firmware in it. What a phase puts up it
// adds to Served.Steps, or undoes it itself before it returns an error: a stop takes the same list
// down, backwards.
func (n *Node) start(ctx context.Context) (lock Lock, up Served, err error) {
	var held Held
	var facts Facts
	var staged Staged
	begin := time.Now()
	// what each phase is called, takes and makes
	prepare := []phase{
		// become the only instance on the node
		part(status.LockPhase, &held, &held, (*Node).takeLock),
		// look at mounts and record: what no driver uses goes
		part("recover", &held.Previous, &held.Previous, (*Node).recover),
		// look at GPUs, kernel and loaded driver: what is needed, what is there
		part("survey", &held.Previous, &facts, (*Node).survey),
		// check that this node can run the driver
		part("preflight", &facts, &facts, (*Node).preflight),
		// take them from the image or the cache, or compile them
		part("modules", &facts, &facts, (*Node).getModules),
		// copy the driver root to the host's storage
		part("stage", &facts, &staged, (*Node).stage),
		// wait for users and permission, then take an older driver down
		part(status.ReplacePhase, &staged, &up, (*Node).replace),
	}
	finish := []phase{
		part("daemons", &up, &up, (*Node).startDaemons),
		part("verify", &up, &up, (*Node).verify), // ask the GPUs
	}
	err = n.inTurn(ctx, slices.Concat(prepare, putUp(&up), finish))
	if up.Record.Version == "" { // replace was not reached
		up.Previous = held.Previous
	}
	if err != nil {
		return held.Lock, up, err
	}
	n.Log.Info("the driver is up", "driver", up.Driver.Version, "flavour", up.Driver.Flavour,
		"kernel", n.Release, "duration", time.Since(begin).Round(time.Millisecond))
	return held.Lock, up, nil
}

// putUp has the phases by which a driver takes its place: the new one in a start, the older one
// when a start has failed.
func putUp(up *Served) []phase {
	return []phase{
		part("root", up, up, (*Node).serveRoot),
		part("load", up, up, (*Node).load),
		part("companions", up, up, (*Node).loadCompanions),
		part("nodes", up, up, (*Node).makeNodes), // make the device files
	}
}

// phase is one part of a start.
type phase struct {
	name string // one of status.Phases
	run  func(ctx context.Context, n *Node) error
}

// part is a phase that takes one value and makes another. What it made counts also with an error.
func part[In, Out any](
	name string,
	in *In,
	out *Out,
	run func(n *Node, ctx context.Context, in In) (Out, error),
) phase {
	return phase{name, func(ctx context.Context, n *Node) (err error) {
		*out, err = run(n, ctx, *in)
		return err
	}}
}

// inTurn runs the phases until one fails or ctx ends. What they log has the phase's name.
func (n *Node) inTurn(ctx context.Context, phases []phase) error {
	for i, p := range phases {
		err := ctx.Err()
		if err != nil {
			return err
		}
		begin := time.Now()
		err = p.run(ctx, n.saying(n.Log.With("phase", p.name), n.Status))
		took := time.Since(begin).Round(time.Millisecond)
		if err != nil {
			if p.name != status.LockPhase { // without the lock the file is another's
				n.Status.EndPhase(p.name, took, p.name)
			}
			return fmt.Errorf("%s: %w", p.name, err)
		}
		next := ""
		if i+1 < len(phases) {
			next = phases[i+1].name
		}
		n.Status.EndPhase(p.name, took, next)
		n.Log.Info("phase finished", "phase", p.name, "duration", took)
	}
	return nil
}
