package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// Run runs a whole life: start, watch until ctx ends, stop. When stopCtx ends, the stop waits for nothing any
// more; a step that has begun is finished. The result nil means that the driver is stopped, or left in
// place as configured. Errors: config.ErrConfig, lock.ErrHeld, *preflight.BlockedError,
// *buildtree.NoHeadersError, *kbuild.CompileError, *kmod.RefusedError, *RollbackError, ErrLeft.
func (n *Node) Run(ctx, stopCtx context.Context) error {
	end := make(chan struct{})
	defer close(end)
	if err := n.signsOfLife(end); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		at := n.now()
		n.asked.Store(&at)
	})()
	err := n.start(ctx)
	if n.lock == nil { // it never had the node: there is nothing to take down
		if ctx.Err() != nil {
			n.log.Info("stopped while waiting for the lock; nothing was touched")
			return nil
		}
		n.status.ChangeUnsaved(func(st *status.Snapshot) {
			st.State, st.Phase, st.Reason = status.Failed, status.LockPhase, err.Error()
		})
		n.writeTermination(err)
		return err
	}
	if err == nil {
		n.watch(ctx)
	}
	if ctx.Err() != nil && !errors.Is(err, kmod.ErrStuck) {
		err = ErrStopped // an interruption by a signal is no failure
	}
	err = n.stop(stopCtx, err)
	n.ended()
	return errors.Join(err, n.lock.Release())
}

// start brings the driver up, below the shim (node/shim), which is process 1 and outlives this
// process; Run watches afterwards. Before replace nothing that works is touched. The root comes
// before the modules: the kernel looks for the driver's firmware in it. What a phase puts up it
// adds to Node.up, or undoes it itself before it returns an error: stop takes the same list down,
// backwards.
func (n *Node) start(ctx context.Context) error {
	prepare := []phase{
		{status.LockPhase, n.takeLock}, // become the only instance on the node
		{"recover", n.recover},         // look at mounts and record: what no driver uses goes
		{
			"survey",
			n.survey,
		}, // look at GPUs, kernel and loaded driver: what is needed, what is there
		{"preflight", n.preflight}, // check that this node can run the driver
		{"modules", n.getModules},  // take them from the image or the cache, or compile them
		{"stage", n.stage},         // copy the driver root to the host's storage
		{
			status.ReplacePhase,
			n.replace,
		}, // wait for users and permission, then take an older driver down
	}
	finish := []phase{
		{"daemons", n.startDaemons},
		{"verify", n.verify}, // ask the GPUs
	}
	return n.inTurn(ctx, slices.Concat(prepare, n.putUp(), finish))
}

// putUp has the phases by which the new driver takes its place. If one fails, restore puts the
// older driver back by the same phases.
func (n *Node) putUp() []phase {
	return []phase{
		{"root", n.serveRoot},
		{"load", n.load},
		{"companions", n.loadCompanions},
		{"nodes", n.makeNodes}, // make the device files
	}
}

// phase is one part of a start.
type phase struct {
	name string // one of status.Phases
	run  func(ctx context.Context) error
}

// inTurn runs the phases until one fails or ctx ends.
func (n *Node) inTurn(ctx context.Context, phases []phase) error {
	begin := n.now()
	log := n.log
	defer func() { n.log = log }()
	for i, p := range phases {
		if err := ctx.Err(); err != nil {
			return err
		}
		since := n.now()
		n.log = log.With("phase", p.name)
		err := p.run(ctx)
		took := n.now().Sub(since).Round(time.Millisecond)
		if n.lock != nil {
			n.status.Change(func(st *status.Snapshot) {
				st.Phases = append(st.Phases, status.Timing{Phase: p.name, Seconds: took.Seconds()})
				if err == nil && i+1 < len(phases) {
					st.Phase = phases[i+1].name
				}
			})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		log.Info("phase finished", "phase", p.name, "duration", took)
	}
	n.status.Change(func(st *status.Snapshot) { st.Phase = "" })
	log.Info(
		"the driver is up",
		"driver",
		n.driver.Version,
		"flavour",
		n.driver.Flavour,
		"kernel",
		n.Release,
		"duration",
		n.now().Sub(begin).Round(time.Millisecond),
	)
	return nil
}
