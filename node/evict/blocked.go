package evict

import (
	"context"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

const (
	// A refused eviction is asked for again after this time, as kubectl drain does. While a trial
	// is refused, the time doubles up to mostRetry.
	blockedRetry = 5 * time.Second
	// wholeTrial is the number of rounds after which a blocked trial asks about all pods again, so
	// that the message about them stays true.
	wholeTrial = 10
)

// blockedTrial is a trial that was refused. A budget may refuse for days, on many nodes.
type blockedTrial struct {
	rounds int         // in which it was refused
	pods   sweepResult // of the last whole trial
}

// stillBlocked asks about one pod, whether the server's answer to the last trial has changed. It
// says false when all pods have to be looked at.
func (a *Agent) stillBlocked(ctx context.Context) bool {
	last := &a.blocked.pods
	if last.firstRefused == nil || a.blocked.rounds%wholeTrial == 0 {
		return false
	}
	answer := a.evict(ctx, last.firstRefused, true)
	last.after = answer.after
	return answer.reason == last.firstReason
}

// waitBlocked reports what blocks the trial, and returns the time until the next one.
func (a *Agent) waitBlocked(ctx context.Context, st status.Snapshot) time.Duration {
	a.blocked.rounds++
	a.report(
		ctx,
		reasonBlocked,
		"driver %s waits for node %s to be free, and nothing is evicted yet: %s",
		st.Wanted,
		a.cfg.Node,
		a.blocked.pods,
	)
	pause := grown(blockedRetry, a.blocked.rounds, mostRetry)
	return max(pause, min(a.blocked.pods.after, a.cfg.Timeout))
}
