package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// replace takes an older driver down, now that everything is ready for the new one. While the older
// one is in use, the instance waits, is not ready and names the holders; it neither ends nor starts
// again. For modules of an adopted driver that differ it only waits: load replaces them.
func (n *Node) replace(ctx context.Context) error {
	if err := n.unloadNouveau(ctx); err != nil {
		return err
	}
	loaded, err := n.isLoaded("nvidia")
	if err != nil || !loaded || n.loaded.Adopted && len(n.loaded.Differing) == 0 {
		return err
	}
	old, err := n.loadedDriver()
	if err != nil {
		return err
	}
	if !n.loaded.Adopted {
		_, err = wayBack(old)
	}
	if err != nil {
		n.warn(
			"driver %s cannot be put back if %s does not start: %v",
			old.Version,
			n.want.Driver,
			err,
		)
	}
	n.blocked = false
	if err := n.awaitSafeLoad(ctx, old); err != nil {
		return err
	}
	if err := n.waitUntilFree(ctx, old); err != nil {
		return err
	}
	n.status.Set(status.Starting, "")
	if n.loaded.Adopted {
		return nil
	}
	n.log.Info("unloading the driver", "driver", old.Version)
	n.replaced = old
	if err := n.unload(ctx, old); err != nil {
		return err
	}
	n.up = append(n.up, n.restoring(old))
	if err := errors.Join(n.Roots.ClearFirmware(), n.Roots.Unmount(ctx)); err != nil {
		return err
	}
	n.status.Change(func(st *status.Snapshot) { st.Up = nil })
	return nil
}

// unloadNouveau unloads the kernel's own driver if that is configured. It is not loaded again,
// because the configuration says that it is not wanted.
func (n *Node) unloadNouveau(ctx context.Context) error {
	if !n.cfg.UnloadNouveau || n.byHost() {
		return nil
	}
	stack, err := n.Kernel.Stack("nouveau")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range stack {
		if err := n.Kernel.Delete(ctx, m.Name); err != nil {
			return fmt.Errorf(
				"unload nouveau, which drives the GPUs now: %w; stop what uses it (a console or display server), or blacklist it and reboot",
				err,
			)
		}
		n.log.Info("unloaded", "module", m.Name)
	}
	return nil
}

// loadedDriver returns the driver that is loaded: as its instance recorded it, or as far as the
// kernel shows it.
func (n *Node) loadedDriver() (status.Driver, error) {
	m, err := n.Kernel.Module("nvidia")
	if err != nil {
		return status.Driver{}, err
	}
	if n.prev != nil && n.prev.Version == m.Version {
		return *n.prev, nil
	}
	flavour, err := n.Kernel.Flavour()
	return status.Driver{Version: m.Version, Flavour: flavour}, err
}

// waitUntilFree waits, and returns nil when the old driver could be unloaded at once.
func (n *Node) waitUntilFree(ctx context.Context, old status.Driver) error {
	var said time.Time
	for {
		err := n.removable(ctx)
		busy, ok := errors.AsType[*modules.InUseError](err)
		switch {
		case err == nil:
			n.status.Change(func(st *status.Snapshot) { st.Holders = nil })
			return nil
		case !ok:
			return err
		}
		n.countBlocked()
		n.status.Wait(status.ForHolders, n.mustGo(old)+": "+busy.Error(), busy.Holders)
		if n.now().Sub(said) >= 30*time.Second {
			said = n.now()
			n.log.Info("waiting to replace the driver", "driver", old.Version, "reason", busy)
		}
		if !daemons.Sleep(ctx, tick) {
			return ctx.Err()
		}
	}
}

// mustGo returns what has to be unloaded, and why, for messages.
func (n *Node) mustGo(old status.Driver) string {
	if n.loaded.Adopted {
		return fmt.Sprintf(
			"driver %s cannot be completed yet: %s",
			old.Version,
			strings.Join(n.loaded.Reasons, "; "),
		)
	}
	return fmt.Sprintf("driver %s must go before %s can be loaded", old.Version, n.want.Driver)
}

// countBlocked counts each stop or replacement that finds the driver in use once.
func (n *Node) countBlocked() {
	if !n.blocked {
		n.blocked = true
		n.status.Change(func(st *status.Snapshot) { st.Counters.BlockedUnloads++ })
	}
}

// restoring returns the step that restores the old driver if the new one fails. A stop drops the
// step: then no driver is wanted.
func (n *Node) restoring(old status.Driver) step {
	return step{name: restoreStep, down: func(ctx context.Context) error {
		n.restored = &RollbackError{Old: old.Version, Restore: n.restore(ctx, old)}
		return nil // trying again would not help
	}}
}

const restoreStep = "restore"

func (n *Node) dropRestore() {
	n.up = slices.DeleteFunc(n.up, func(s step) bool { return s.name == restoreStep })
}
