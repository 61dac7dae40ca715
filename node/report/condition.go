package report

import (
	"context"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/kubernetes"
	"github.com/driver-container/driver-container/node/status"
)

const (
	conditionType = "NVIDIADriverReady"
	heartbeat     = 5 * time.Minute  // a condition that is older than two heartbeats belongs to an instance that was killed
	messageEvery  = 10 * time.Second // the minimum time between two reports if only the message has changed
)

// reported is the condition that the server has.
type reported struct {
	status, reason, message string
	at                      time.Time
}

// conditionOf returns the node condition for a status.
func conditionOf(st status.Snapshot) kubernetes.Condition {
	c := kubernetes.Condition{Type: conditionType, Status: "False", Reason: camel(st.State), Message: st.Reason}
	switch st.State {
	case status.Serving:
		c.Status, c.Message = "True", serving(st)
	case status.Detached: // the driver works, but no instance watches it
		c.Status = "Unknown"
	case status.Starting:
		c.Message = "phase " + st.Phase
		if st.Reason != "" {
			c.Message += ": " + st.Reason
		}
	case status.Absent:
		c.Reason, c.Message = "Stopped", "the driver was taken down"
	}
	return c
}

func camel(s status.State) string {
	if s == "" {
		return "Starting"
	}
	return strings.ToUpper(string(s[:1])) + string(s[1:])
}

// reportCondition writes the condition when it has changed, and from time to time as a heartbeat. An instance
// that does not hold the node's lock reports no condition.
func (r *Reporter) reportCondition(ctx context.Context, st status.Snapshot, final bool) {
	now := r.now()
	if !st.Holding() || !r.condition.ready(now) {
		return
	}
	c := conditionOf(st)
	same := c.Status == r.reported.status && c.Reason == r.reported.reason
	switch since := now.Sub(r.reported.at); {
	case same && c.Message == r.reported.message && (since < heartbeat || final):
		return
	case same && c.Message != r.reported.message && since < messageEvery && !final:
		return
	}
	if c.Status != r.reported.status {
		c.Changed = now
	}
	err := r.o.Client.SetCondition(ctx, r.o.Node, now, c)
	r.condition.result(ctx, now, err)
	if err == nil {
		r.reported = reported{c.Status, c.Reason, c.Message, now}
	}
}

// conditionDue returns the time at which the condition must be written again without a change.
func (r *Reporter) conditionDue() time.Time {
	st := r.source.Status()
	if !st.Holding() {
		return r.now().Add(heartbeat)
	}
	if c := conditionOf(st); c.Message != r.reported.message || c.Reason != r.reported.reason {
		return r.reported.at.Add(messageEvery)
	}
	return r.reported.at.Add(heartbeat)
}
