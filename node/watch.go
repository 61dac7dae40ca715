package node

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

// Pauses of the watch. A GPU that did not come up is asked less often, because that takes a process each
// time.
const (
	watchEvery = 5 * time.Second
	askEvery   = 30 * time.Second
)

// serve watches until ctx ends. It reports what changed and corrects its own readiness. It never repairs what
// others changed.
func (n *Node) serve(ctx context.Context) error {
	if err := n.roots.Prune(ctx); err != nil {
		n.warn("%v", err)
	}
	asked := n.now()
	if err := n.hardware.WriteKernelHook(); err != nil {
		n.warn("%v", err)
	}
	n.served()
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
			return nil
		case <-changed:
		case <-next.C:
			next.Reset(untilNext(n.now()))
		}
		again := n.status.Get().State == status.Degraded && n.now().Sub(asked) >= askEvery && !n.watched.Absent()
		reason := n.look(ctx, last, again)
		if again {
			asked = n.now()
		}
		if ctx.Err() == nil && reason != last {
			last = reason
			if err := n.announce(reason); err != nil {
				return err
			}
		}
	}
}

// untilNext returns the time until the clock shows a multiple of watchEvery. All regular work is done at the
// same moment, so that an idle processor wakes up once.
func untilNext(now time.Time) time.Duration { return watchEvery - now.Sub(now.Truncate(watchEvery)) }

// look returns the reason why the driver is not ready. A reason that only the driver itself can revoke (last)
// stays, unless again is true: then look asks the driver.
func (n *Node) look(ctx context.Context, last string, again bool) string {
	gpuReason, judged := n.followGPUs(ctx)
	if reason := n.changes(); reason != "" {
		return reason
	}
	if judged {
		return gpuReason
	}
	if last == "" {
		return ""
	}
	if !again && !n.recovered(last) {
		return last
	}
	reason, err := n.examine(ctx)
	if err != nil {
		return err.Error()
	}
	return reason
}

// recovered reports whether a reason that changes had found is over, so that the driver should be asked at
// once.
func (n *Node) recovered(last string) bool {
	return n.status.Get().State == status.Degraded && n.lastSeen != "" && n.lastSeen == last
}

// changes compares modules, mounts, daemons and lock with what this instance put up.
func (n *Node) changes() (reason string) {
	defer func() {
		if reason != "" {
			n.lastSeen = reason
		}
	}()
	for _, m := range n.driver.Modules {
		live, err := n.kernel.Module(m.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "module " + m.Name + " was unloaded by somebody else; delete this pod to load it again"
		case err == nil && live.SrcVersion != m.SrcVersion:
			return "module " + m.Name + " was replaced by another build by somebody else; delete this pod"
		}
	}
	layers, err := n.roots.Mounted()
	switch {
	case err == nil && layers == 0:
		return "the driver root " + status.RootPath(n.cfg.Run) + " was unmounted by somebody else; delete this pod to serve it again"
	case err == nil && layers > 1:
		return "something was mounted over the driver root " + status.RootPath(n.cfg.Run) + " by somebody else; delete this pod to clear it"
	}
	n.keepLock()
	return n.daemonsDown()
}

// keepLock recreates the lock's files if another program removed them: the GPU Operator's driver manager
// removes NVIDIA's file.
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
