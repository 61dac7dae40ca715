package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/preflight"
)

// Preflight returns the checks of a start. It changes nothing.
func (n *Node) Preflight(ctx context.Context) ([]preflight.Check, error) {
	n.prev = onHost(n.status.Predecessor().Up)
	n.status = n.status.InMemory()
	if err := n.survey(ctx); err != nil {
		return nil, err
	}
	return n.Hardware.Preflight(ctx, n.facts()), nil
}

// Compile makes sure that the cache has the modules for a kernel ("": the running one), and returns
// where they came from. It loads nothing and needs no GPU.
func (n *Node) Compile(
	ctx context.Context,
	release string,
) (set *kbuild.Set, source string, err error) {
	n.prev = onHost(n.status.Predecessor().Up)
	n.status = n.status.InMemory()
	if release == "" {
		release = n.Release
	}
	gpus, err := n.Hardware.GPUs()
	if err != nil {
		return nil, "", err
	}
	flavour, reason, err := n.Hardware.Flavour(gpus, release, n.cfg.ModuleType)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	n.log.Info(
		"driver chosen",
		"driver",
		n.Info.Driver,
		"flavour",
		flavour,
		"kernel",
		release,
		"reason",
		reason,
	)
	n.want = n.modules(flavour, release, false)
	set, source, err = n.Supplier.Find(ctx, n.want)
	switch {
	case err == nil:
		n.found = set
		n.source = source
	case !errors.Is(err, kbuild.ErrMiss) && !errors.As(err, new(*kbuild.CorruptError)):
		return nil, "", err
	}
	err = n.makeModules(ctx)
	if err == nil && n.fresh {
		n.found, err = n.Supplier.Keep(ctx, n.found, n.needed())
	}
	if err != nil {
		return nil, "", err
	}
	return n.found, n.source, nil
}

// Unload takes down a driver that an instance left in place. ctx limits the waiting for the lock,
// stopCtx the stop, as in Run. The error is lock.ErrHeld while an instance runs, ErrLeft if the
// driver is in use.
func (n *Node) Unload(ctx, stopCtx context.Context) error {
	if err := n.takeLock(ctx); err != nil {
		return err
	}
	err := n.unloadLeft(ctx, stopCtx)
	return errors.Join(err, n.lock.Release())
}

func (n *Node) unloadLeft(ctx, stopCtx context.Context) error {
	if err := n.recover(ctx); err != nil {
		return err
	}
	loaded, err := n.isLoaded("nvidia")
	if err != nil {
		return err
	}
	if loaded {
		n.driver, err = n.loadedDriver()
		if err != nil {
			return err
		}
		n.up = append(n.up, n.rootStep(), n.modulesStep())
	}
	return n.stop(stopCtx, nil)
}
