package evict

import (
	"context"
	"slices"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

// handleRecord handles a record on the node. A record of this pod means that this process was
// killed in the middle of an upgrade: it continues where the driver still needs it. The changes of
// another pod's record are undone when that pod is gone. It returns the time until the next step.
func (a *Agent) handleRecord(
	ctx context.Context,
	st status.Snapshot,
	r record,
) (time.Duration, error) {
	switch {
	case !a.isForeign(r) && (a.wantsFreeNode(st) || a.isStarting(st)):
		a.log.Info("continuing what was begun", "since", r.Since, "changes", r.changes())
		err := a.attempt(ctx, sweepResult{})
		return a.history.pause, err
	// A driver that asks has the node's lock, so no other pod can be in the middle of an upgrade.
	case a.isForeign(r) && !a.wantsFreeNode(st):
		pods, err := a.pods(ctx)
		if err != nil {
			return 0, err
		}
		// its own agent undoes the changes
		if slices.ContainsFunc(
			pods,
			func(p Pod) bool { return p.Metadata.UID == r.UID && !p.isFinished() },
		) {
			if a.otherPod != r.UID {
				a.otherPod = r.UID
				a.log.Info("another pod works on this node", "pod", r.Pod, "changes", r.changes())
			}
			return foreignRetry, nil
		}
	}
	done, err := a.putBack(ctx, r.UID)
	if err != nil {
		return 0, err
	}
	a.mayHaveRecord = false
	if done != "" {
		a.report(
			ctx,
			reasonRestored,
			"put back what pod %s had left on node %s: %s",
			r.Pod,
			a.cfg.Node,
			done,
		)
	}
	return 0, nil
}
