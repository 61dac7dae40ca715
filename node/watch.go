package node

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// Pauses of the watch. A GPU that did not come up is asked less often, because that takes a process
// each time.
const (
	watchEvery = 5 * time.Second
	askEvery   = 30 * time.Second
	// A driver that serves is asked for the licences of vGPUs, which takes a process each time.
	licenceEvery = 5 * time.Minute
)

// watch watches until ctx ends. It reports what changed and corrects its own readiness. It never
// repairs what others changed.
func (n *Node) watch(ctx context.Context, lock Lock, up *Served) {
	n.Served()
	pruned := make(chan error, 1) // it may wait for a busy disk for minutes
	files := n.needed(up.Previous, up.Driver, up.Replaced)
	go func() {
		defer close(pruned)
		pruned <- n.Roots.Prune(ctx, files)
	}()
	o := observer{Node: n, up: up}
	o.look(ctx, lock, pruned)
	<-pruned
}

// look looks at the driver every watchEvery, and when a daemon ends, until ctx ends. pruned says
// once how Prune ended.
func (o *observer) look(ctx context.Context, lock Lock, pruned <-chan error) {
	asked := time.Now()
	licensed := time.Now()
	next := time.NewTimer(untilNext(time.Now()))
	defer next.Stop()
	last := o.Status.Get().Reason
	for {
		var changed <-chan struct{}
		if o.up.Daemons != nil {
			changed = o.up.Daemons.Changed()
		}
		select {
		case <-ctx.Done():
			return
		case err := <-pruned:
			pruned = nil
			if err != nil {
				o.warn("%v", err)
			}
			continue
		case <-changed:
		case <-next.C:
			next.Reset(untilNext(time.Now()))
		}
		again := o.mayAsk(asked)
		reason := o.whyNotReady(ctx, lock, last, again)
		if again {
			asked = time.Now()
		}
		if time.Since(licensed) >= licenceEvery {
			licensed = time.Now()
			o.followLicences(ctx)
		}
		if ctx.Err() == nil && (reason != last || o.up.Seen.Unmarked) {
			last = o.announce(reason)
		}
	}
}

// untilNext returns the time until the clock shows a multiple of watchEvery. All regular work is
// done at the same moment, so that an idle processor wakes up once.
func untilNext(now time.Time) time.Duration {
	return watchEvery - now.Sub(now.Truncate(watchEvery))
}

// mayAsk reports whether a driver that is not ready should be asked again.
func (o *observer) mayAsk(asked time.Time) bool {
	if !o.degraded() || o.up.Seen.GPUs.Absent() {
		return false
	}
	return time.Since(asked) >= askEvery || o.up.Seen.Fabric.Expected(time.Now())
}

func (o *observer) degraded() bool { return o.Status.Get().State == status.Degraded }

// whyNotReady returns the reason why the driver is not ready. A reason that only the driver itself
// can revoke (last) stays, unless again is true: then it asks the driver. It asks at once if a
// reason that a look had found is over.
func (o *observer) whyNotReady(ctx context.Context, lock Lock, last string, again bool) string {
	o.followCompanions(ctx)
	ofGPUs, decided := o.followGPUs(ctx)
	o.keepLock(lock)
	reason := cmp.Or(o.changedByOthers(), o.daemonsDown())
	seen := &o.up.Seen
	if reason != "" {
		seen.Reason = reason
		return reason
	}
	if decided {
		return ofGPUs
	}
	if last == "" {
		return ""
	}
	over := last == seen.Reason && o.degraded()
	if !again && !over {
		return last
	}
	return o.ask(ctx)
}

// ask returns why the driver is not ready, by its own answer.
func (o *observer) ask(ctx context.Context) string {
	reason, err := o.askDriver(ctx)
	if err != nil {
		return err.Error()
	}
	return reason
}

// changedByOthers compares modules and mounts with what this instance put up.
func (o *observer) changedByOthers() (reason string) {
	driver, _ := modules.Split(o.up.Driver.Modules)
	for _, m := range driver {
		live, err := o.Kernel.Module(m.Name)
		gone := errors.Is(err, fs.ErrNotExist)
		switch {
		case gone && o.cfg.ByHost():
			return "module " + m.Name + " was unloaded by the node's own system, which brings it " +
				"(--modules=host): load it there (modprobe " + m.Name + ")"
		case gone:
			return "module " + m.Name + " was unloaded by another program; " +
				"delete this pod to load it again"
		case err == nil && live.SrcVersion != m.SrcVersion:
			return "module " + m.Name + " was replaced by another build by another program; " +
				"delete this pod"
		}
	}
	layers, err := o.Roots.Mounted()
	if err != nil || layers == 1 {
		return ""
	}
	root := "the driver root " + status.RootPath(o.cfg.Run)
	if layers == 0 {
		return root + " was unmounted by another program; delete this pod to serve it again"
	}
	return "something was mounted over " + root + " by another program; " +
		"delete this pod to clear it"
}

// keepLock recreates the lock's files if another program removed them: the GPU Operator's driver
// manager removes NVIDIA's file.
func (o *observer) keepLock(lock Lock) {
	err := lock.Lost()
	if err == nil {
		return
	}
	failed := lock.Retake()
	if failed != nil {
		o.warn("%v; it cannot be made anew: %v", err, failed)
		return
	}
	o.Log.Warn("lock file recreated", "error", err)
}
