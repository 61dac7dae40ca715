package evict

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/node/status"
)

// settle deals with a record that stands on the node. Ours: this process was killed in the middle, and goes on where the driver still
// needs it. Another pod's: it is put back when that pod is gone. wait > 0: not settled, look again.
func (a *Agent) settle(ctx context.Context, st status.Snapshot) (wait time.Duration, err error) {
	n, err := a.getNode(ctx)
	if err != nil {
		return askAgain, err
	}
	r, there, err := a.recordOf(n)
	switch {
	case err != nil:
		return a.cfg.RetryAfter, err
	case !there:
		a.unsettled = false
		return 0, nil
	case !a.notMine(r) && (a.asks(st) || a.underWay(st)):
		a.say("going on with what was begun at %s: %s", r.Since.Format(time.RFC3339), r.changes())
		return a.cfg.RetryAfter, a.attempt(ctx)
	case a.notMine(r) && !a.asks(st): // the driver that asks is the node's one: nobody else's upgrade can be under way
		alive, err := a.alive(ctx, r.UID)
		if err != nil {
			return askAgain, err
		}
		if alive {
			if a.other != r.UID {
				a.other = r.UID
				a.say("pod %s works on this node: %s", r.Pod, r.changes())
			}
			return othersTurn, nil
		}
	}
	done, err := a.putBack(ctx, func(now record) bool { return now.UID != r.UID })
	if err != nil {
		return askAgain, err
	}
	a.unsettled = false
	if done != "" {
		a.tell(ctx, reasonRestored, "put back what pod %s had left on node %s: %s", r.Pod, a.cfg.Node, done)
	}
	return 0, nil
}

// alive says whether a pod is still on this node: then its own agent puts things back.
func (a *Agent) alive(ctx context.Context, uid string) (bool, error) {
	pods, err := a.pods(ctx)
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return string(p.UID) == uid && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	}), err
}
