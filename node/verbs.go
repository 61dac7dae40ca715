package node

import (
	"context"
	"errors"

	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/preflight"
)

// Preflight returns the checks of a start. It changes nothing.
func (n *Node) Preflight(ctx context.Context) ([]preflight.Check, error) {
	previous := onHost(n.Status.Predecessor().Up)
	n = n.saying(n.Log, n.Status.InMemory()) // the status file belongs to another instance
	facts, err := n.survey(ctx, previous)
	if err != nil {
		return nil, err
	}
	return fitness{Node: n, Facts: facts}.checks(ctx), nil
}

// Compile makes sure that the cache has the modules for a kernel ("": the running one), and returns
// where they came from. It loads nothing and needs no GPU.
func (n *Node) Compile(ctx context.Context, release string) (*kbuild.Set, string, error) {
	needed := n.needed(onHost(n.Status.Predecessor().Up))
	n = n.saying(n.Log, n.Status.InMemory()) // the status file belongs to another instance
	if release == "" {
		release = n.Release
	}
	gpus, err := n.Hardware.GPUs()
	if err != nil {
		return nil, "", err
	}
	wanted, err := n.choose(gpus, release, false)
	if err != nil {
		return nil, "", err
	}
	m := ModuleSet{Info: n.Info, Want: wanted}
	m.Set, m.Source, err = n.Supplier.Find(ctx, m.Want)
	if err != nil {
		m.Set = nil
		if !errors.Is(err, kbuild.ErrMiss) && !errors.As(err, new(*kbuild.CorruptError)) {
			return nil, "", err
		}
	}
	m, err = n.makeModules(ctx, m)
	if err != nil || !m.Fresh {
		return m.Set, m.Source, err
	}
	set, err := n.Supplier.Keep(ctx, m.Set, needed)
	return set, m.Source, err
}

// Unload takes down a driver that an instance left in place. ctx limits the waiting for the lock,
// stopCtx the stop, as in Run. The error is lock.ErrHeld while an instance runs, ErrLeft if the
// driver is in use.
func (n *Node) Unload(ctx, stopCtx context.Context) (err error) {
	held, err := n.takeLock(ctx, Held{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Lock.Release()) }()
	previous, err := n.recover(ctx, held.Previous)
	if err != nil {
		return err
	}
	loaded, err := isLoaded(n.Kernel, "nvidia")
	if err != nil {
		return err
	}
	up := Served{}
	up.Previous = previous
	if loaded {
		up.Driver, err = loadedDriver(n.Kernel, previous)
		if err != nil {
			return err
		}
		up.Steps = []step{rootStep, modulesStep}
	}
	e := ending{Node: n, up: &up}
	return e.stop(stopCtx)
}
