package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// replace takes an older driver down, now that everything is ready for the new one. While the older
// one is in use, the instance waits, is not ready and names the holders; it neither ends nor starts
// again. For modules of an adopted driver that differ it only waits: load replaces them.
func (n *Node) replace(ctx context.Context, staged Staged) (up Served, err error) {
	up = Served{Staged: staged}
	if n.cfg.UnloadNouveau && !n.cfg.ByHost() {
		err = unloadNouveau(ctx, n.Kernel, n.Log)
		if err != nil {
			return up, err
		}
	}
	loaded, err := isLoaded(n.Kernel, "nvidia")
	if err != nil || !loaded || staged.Loaded.Adopted && len(staged.Loaded.Differing) == 0 {
		return up, err
	}
	old, err := loadedDriver(n.Kernel, staged.Previous)
	if err != nil {
		return up, err
	}
	r := replacement{Node: n, Staged: staged, old: old}
	err = r.await(ctx)
	if err != nil || staged.Loaded.Adopted {
		return up, err
	}
	up.Replaced = old
	up.Previous = nil // nothing of it is left
	up.Steps = append(up.Steps, restoreStep)
	err = errors.Join(n.Roots.ClearFirmware(), n.Roots.Unmount(ctx))
	if err != nil {
		return up, err
	}
	n.Status.Unrecord()
	return up, nil
}

// unloadNouveau unloads the kernel's own driver. It is not loaded again,
// because the configuration says that it is not wanted.
func unloadNouveau(ctx context.Context, k Kernel, log *slog.Logger) error {
	stack, err := k.Stack("nouveau")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, m := range stack {
		err := k.Delete(ctx, m.Name)
		if err != nil {
			return fmt.Errorf("unload nouveau, which drives the GPUs now: %w; "+
				"stop what uses it (a console or display server), or blacklist it and reboot", err)
		}
		log.Info("unloaded", "module", m.Name)
	}
	return nil
}

// loadedDriver returns the driver that is loaded: as its instance recorded it, or as far as the
// kernel shows it.
func loadedDriver(k Kernel, recorded *status.Driver) (status.Driver, error) {
	m, err := k.Module("nvidia")
	if err != nil {
		return status.Driver{}, err
	}
	if recorded != nil && recorded.Version == m.Version {
		return *recorded, nil
	}
	flavour, err := k.Flavour()
	return status.Driver{Version: m.Version, Flavour: flavour}, err
}

// replacement waits until a loaded driver can make place for another one.
type replacement struct {
	*Node
	Staged
	old     status.Driver
	blocked bool // it was in use once
}

// await waits for permission and for users, and makes place.
func (r *replacement) await(ctx context.Context) error {
	if !r.Loaded.Adopted {
		_, err := wayBack(r.old)
		if err != nil {
			r.warn("driver %s cannot be put back if %s does not start: %v",
				r.old.Version, r.Want.Driver, err)
		}
	}
	err := r.awaitSafeLoad(ctx)
	if err != nil {
		return err
	}
	err = r.awaitUsers(ctx)
	if err != nil {
		return err
	}
	r.Status.Set(status.Starting, "")
	return nil
}

// awaitUsers tries to make place until no user prevents it, also one that comes meanwhile.
func (r *replacement) awaitUsers(ctx context.Context) error {
	var logged time.Time
	for {
		err := r.makePlace(ctx)
		busy := r.inUse(err)
		if busy == nil {
			return err
		}
		r.Status.Wait(status.ForHolders, fmt.Sprintf("%s: %v", r.mustGo(), err), busy.Holders)
		if time.Since(logged) >= logEvery {
			logged = time.Now()
			r.Log.Info("waiting to replace the driver", "driver", r.old.Version, "reason", err)
		}
		if !daemons.Sleep(ctx, tick) {
			return ctx.Err()
		}
	}
}

// makePlace unloads the old driver. Modules of an adopted one that differ load replaces.
func (r *replacement) makePlace(ctx context.Context) error {
	err := r.free(ctx)
	if err != nil || r.Loaded.Adopted {
		return err
	}
	r.Log.Info("unloading the driver", "driver", r.old.Version)
	return r.unload(ctx, r.old)
}

// logEvery is how often a wait for holders is logged.
const logEvery = 30 * time.Second

// free returns nil if nobody uses the modules that have to go: of an adopted driver those that
// differ.
func (r *replacement) free(ctx context.Context) error {
	if r.Loaded.Adopted {
		return r.stack().Removable(ctx, r.Loaded.Differing...)
	}
	return r.stack().Free(ctx, status.Driver{Modules: r.old.Modules}, nil)
}

// inUse returns who is in the way, and counts it once; nil for another error, or none.
func (r *replacement) inUse(err error) *modules.InUseError {
	busy, inUse := errors.AsType[*modules.InUseError](err)
	if !inUse {
		return nil
	}
	if !r.blocked {
		r.blocked = true
		r.Status.Count(countBlocked)
	}
	return busy
}

// countBlocked counts a stop or replacement that finds the driver in use, once.
func countBlocked(c *status.Counters) { c.BlockedUnloads++ }

// mustGo returns what has to be unloaded, and why, for messages.
func (r *replacement) mustGo() string {
	if r.Loaded.Adopted {
		return fmt.Sprintf("driver %s cannot be completed yet: %s",
			r.old.Version, strings.Join(r.Loaded.Reasons, "; "))
	}
	return fmt.Sprintf("driver %s must go before %s can be loaded", r.old.Version, r.Want.Driver)
}
