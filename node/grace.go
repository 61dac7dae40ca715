package node

import (
	"context"
	"time"

	"github.com/driver-container/driver-container/node/config"
)

// limit returns the time that a stop may wait: the grace period minus a margin for what comes
// after the waiting. A failed start waits for holders for a shorter time, because nobody asked it
// to stop.
func (e *ending) limit(stopCtx context.Context) time.Duration {
	if e.cause == nil && e.cfg.OnBusy == config.BusyWait {
		return forever
	}
	grace := e.cfg.Grace
	if grace == 0 {
		grace = less(e.podGrace(stopCtx))
	}
	if e.cause != nil {
		return min(less(grace), 10*tick)
	}
	return less(grace)
}

// less returns a time minus a margin.
func less(d time.Duration) time.Duration { return d - min(5*time.Second, d/4) }

// forever is the time that config.BusyWait waits: in practice until SIGKILL.
const forever = 100 * 365 * 24 * time.Hour

// usualGrace is the terminationGracePeriodSeconds of a pod that sets none, such as the GPU
// Operator's.
const usualGrace = 30 * time.Second

// podGrace returns the time from SIGTERM to SIGKILL, the usual one if it is not known.
func (e *ending) podGrace(stopCtx context.Context) time.Duration {
	if e.Grace == nil {
		return usualGrace
	}
	const wait = 2 * time.Second // the answer may be that it is short
	ctx, cancel := context.WithTimeout(stopCtx, wait)
	defer cancel()
	grace, err := e.Grace(ctx)
	if err != nil {
		e.Log.Info("the grace period of this pod is not known, the usual one is assumed",
			"duration", usualGrace, "error", err)
		return usualGrace
	}
	return grace
}
