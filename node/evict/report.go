package evict

import (
	"context"
	"fmt"
	"time"

	"github.com/driver-container/driver-container/node/kubernetes"
)

// Reasons of the Events, which are written for the pod and for the node.
const (
	reasonStarted  = "GPUEvictionStarted"
	reasonBlocked  = "GPUEvictionBlocked"
	reasonFailed   = "GPUEvictionFailed"
	reasonData     = "GPUEvictionEndedData"
	reasonDone     = "GPUEvictionDone"
	reasonRestored = "GPUEvictionPutBack"
)

// repeatAfter is how long the same message is not repeated.
const repeatAfter = time.Minute

type message struct {
	text string
	at   time.Time
}

// report writes a message to the log and to Events: the same message to the log at most once a
// minute, to Events at most once in five. Without the permission there are no Events, which is
// logged once.
func (a *Agent) report(ctx context.Context, reason, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	last := a.messages[reason]
	repeated := last.text == text
	if repeated && time.Since(last.at) < repeatAfter {
		return
	}
	a.messages[reason] = message{text, time.Now()}
	warning := reason == reasonBlocked || reason == reasonFailed
	say := a.log.Info
	if warning {
		say = a.log.Warn
	}
	say(text, "event", reason) //nolint:sloglint // the sentence is also in the Event
	for _, about := range []kubernetes.Object{kubernetes.Pod(a.cfg.Namespace, a.cfg.Pod, a.cfg.UID), kubernetes.Node(a.cfg.Node)} {
		a.events.Record(
			kubernetes.Event{About: about, Warning: warning, Reason: reason, Message: text},
		)
	}
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := a.events.Send(bounded, !repeated)
	if ctx.Err() != nil {
		return
	}
	if err != nil && !a.eventsFailed {
		a.log.Warn("no Events", "error", granted(err))
	}
	a.eventsFailed = err != nil
}
