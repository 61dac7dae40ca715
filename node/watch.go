package node

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/probe"
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
func (n *Node) watch(ctx context.Context) {
	n.served()
	pruned := make(chan error, 1) // it may wait for a busy disk for minutes
	needed := n.needed()
	go func() {
		defer close(pruned)
		pruned <- n.Roots.Prune(ctx, needed)
	}()
	n.look(ctx, pruned)
	<-pruned
}

// look looks at the driver every watchEvery, and when a daemon ends, until ctx ends. pruned says
// once how Prune ended.
func (n *Node) look(ctx context.Context, pruned <-chan error) {
	asked := n.now()
	licensed := n.now()
	next := time.NewTimer(untilNext(n.now()))
	defer next.Stop()
	last := n.status.Get().Reason
	for {
		var changed <-chan struct{}
		if n.daemons != nil {
			changed = n.daemons.Changed()
		}
		select {
		case <-ctx.Done():
			return
		case err := <-pruned:
			pruned = nil
			if err != nil {
				n.warn("%v", err)
			}
			continue
		case <-changed:
		case <-next.C:
			next.Reset(untilNext(n.now()))
		}
		again := n.status.Get().State == status.Degraded &&
			(n.now().Sub(asked) >= askEvery || n.registration.Expected(n.now())) &&
			!n.watched.Absent()
		reason := n.whyNotReady(ctx, last, again)
		if again {
			asked = n.now()
		}
		if n.now().Sub(licensed) >= licenceEvery {
			licensed = n.now()
			n.followLicences(ctx)
		}
		if ctx.Err() == nil && (reason != last || n.unmarked) {
			last = n.announce(reason)
		}
	}
}

// untilNext returns the time until the clock shows a multiple of watchEvery. All regular work is
// done at the same moment, so that an idle processor wakes up once.
func untilNext(
	now time.Time,
) time.Duration {
	return watchEvery - now.Sub(now.Truncate(watchEvery))
}

// whyNotReady returns the reason why the driver is not ready. A reason that only the driver itself
// can revoke (last) stays, unless again is true: then it asks the driver.
func (n *Node) whyNotReady(ctx context.Context, last string, again bool) string {
	n.followCompanions(ctx)
	reasonOfGPUs, decided := n.followGPUs(ctx)
	if reason := n.changedByOthers(); reason != "" {
		return reason
	}
	if decided {
		return reasonOfGPUs
	}
	if last == "" {
		return ""
	}
	if !again && !n.recovered(last) {
		return last
	}
	reason, err := n.askDriver(ctx)
	if err != nil {
		return err.Error()
	}
	return reason
}

// recovered reports whether a reason that changedByOthers had found is over, so that the driver
// should be asked at once.
func (n *Node) recovered(last string) bool {
	return n.status.Get().State == status.Degraded && n.lastSeen != "" && n.lastSeen == last
}

// changedByOthers compares modules, mounts, daemons and lock with what this instance put up.
func (n *Node) changedByOthers() (reason string) {
	defer func() {
		if reason != "" {
			n.lastSeen = reason
		}
	}()
	driver, _ := modules.Split(n.driver.Modules)
	for _, m := range driver {
		live, err := n.Kernel.Module(m.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && n.byHost():
			return "module " + m.Name + " was unloaded by the node's own system, which brings it (--modules=host): load it there (modprobe " + m.Name + ")"
		case errors.Is(err, fs.ErrNotExist):
			return "module " + m.Name + " was unloaded by another program; delete this pod to load it again"
		case err == nil && live.SrcVersion != m.SrcVersion:
			return "module " + m.Name + " was replaced by another build by another program; delete this pod"
		}
	}
	layers, err := n.Roots.Mounted()
	switch {
	case err == nil && layers == 0:
		return "the driver root " + status.RootPath(
			n.cfg.Run,
		) + " was unmounted by another program; delete this pod to serve it again"
	case err == nil && layers > 1:
		return "something was mounted over the driver root " + status.RootPath(
			n.cfg.Run,
		) + " by another program; delete this pod to clear it"
	}
	n.keepLock()
	return n.daemonsDown()
}

// keepLock recreates the lock's files if another program removed them: the GPU Operator's driver
// manager removes NVIDIA's file.
func (n *Node) keepLock() {
	err := n.lock.Lost()
	if err == nil {
		return
	}
	if retake := n.lock.Retake(); retake != nil {
		n.warn("%v; it cannot be made anew: %v", err, retake)
		return
	}
	n.log.Warn("lock file recreated", "error", err)
}

// lookAtGPUs looks at the bus and at the kernel's log, and logs what changed.
func (n *Node) lookAtGPUs() []probe.Change {
	bus, err := n.Hardware.GPUs()
	if err != nil {
		n.warn("the GPUs cannot be watched: %v", err)
		return nil
	}
	loaded, err := n.isLoaded("nvidia")
	n.watched.Unloaded = err == nil && !loaded
	log := n.Hardware.KernelLog()
	for _, address := range probe.Unbinding(log) {
		n.warn(
			"GPU %s is unbound from the driver although it is in use, which waits in the kernel until nobody uses it: end its users (nvidia-driver holders), "+
				"and persistence mode (nvidia-smi -i %s -pm 0)",
			address,
			address,
		)
	}
	if text := modules.Unusable(log); text != "" {
		n.warn("%s", text)
	}
	changes := n.watched.Look(bus, log)
	for _, c := range changes {
		write := n.log.Info
		if c.To == status.GPULost || c.To == status.GPUTaken {
			write = n.log.Error
		}
		if c.From != "" || c.To != status.GPUOurs {
			write("GPU changed", "what", c.String())
		}
	}
	return changes
}

// followGPUs reports GPUs that were lent, lost or given back since the last look. A GPU that the
// driver has got gets its device files. The result says whether reason is why the driver is not
// ready; otherwise the reason from before may still be right. The driver itself is asked about a
// GPU that came, and not about one that is on its way to another driver, or lost.
func (n *Node) followGPUs(ctx context.Context) (reason string, decided bool) {
	changes := n.lookAtGPUs()
	if len(changes) == 0 {
		return "", false
	}
	if !slices.ContainsFunc(changes, probe.Change.Came) {
		return n.gpuReason(), true
	}
	if err := n.makeNodes(ctx); err != nil {
		n.warn("a GPU came to the driver: %v", err)
	}
	reason, err := n.askDriver(ctx)
	if err != nil {
		reason = err.Error()
	}
	return reason, true
}

// followLicences keeps the licences of vGPUs in the status while the driver serves. A licence that
// is lost then is no reason: work that runs goes on, only slower, and the node stays ready.
func (n *Node) followLicences(ctx context.Context) {
	if n.status.Get().State != status.Serving || !n.watched.Licences() {
		return
	}
	answer, err := n.Hardware.Ask(ctx)
	if err != nil { // what is wrong with the driver, the metrics and the next decision say
		return
	}
	states, lost, got := n.watched.Relicensed(answer, n.status.Get().GPUs)
	n.status.Change(func(st *status.Snapshot) { st.GPUs = states })
	if len(lost) > 0 {
		n.log.Warn(
			"vGPU licence lost",
			"gpus",
			lost,
			"effect",
			"it becomes slow after some minutes to a day; the node stays ready",
			"next",
			"look at the state of nvidia-gridd, the token and the licence server",
		)
	}
	if len(got) > 0 {
		n.log.Info("vGPU licensed", "gpus", got)
	}
}
