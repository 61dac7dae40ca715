package kubernetes

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

// Condition is the condition NVIDIADriverReady of a node.
type Condition struct {
	Status  string // True, False or Unknown
	Reason  string // CamelCase, one word
	Message string
	Changed time.Time // when Status last changed; zero: the server keeps its value
}

// maxMessage is the limit for the message of a condition or an Event: the limit of the API for
// Events.
const maxMessage = 1024

// SetCondition writes the condition and leaves the others of the node unchanged. It needs the verb
// patch on nodes/status.
func (c *Client) SetCondition(
	ctx context.Context,
	node string,
	now time.Time,
	cond Condition,
) error {
	value := Patch{
		"type": conditionType, "status": cond.Status, "reason": cond.Reason, "message": truncate(cond.Message, maxMessage), "lastHeartbeatTime": formatTime(now),
	}
	if !cond.Changed.IsZero() {
		value["lastTransitionTime"] = formatTime(cond.Changed)
	}
	// The strategic merge of Kubernetes merges conditions by type.
	body := Patch{"status": Patch{"conditions": []any{value}}}
	return c.onNode(
		ctx,
		node,
		Request{Method: http.MethodPatch, Kind: strategicPatch, Body: body, Metadata: true},
		nil,
		"status",
	)
}

// formatTime returns a time in the format of the API.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

const (
	conditionType = "NVIDIADriverReady"
	// a condition that is older than two heartbeats belongs to an instance that was killed
	heartbeat = 5 * time.Minute
	// the minimum time between two reports if only the message has changed
	messageEvery = 10 * time.Second
)

// conditionOf returns the node condition for a status.
func conditionOf(st status.Snapshot) Condition {
	c := Condition{
		Status:  "False",
		Reason:  camel(st.State),
		Message: st.Reason,
	}
	switch st.State {
	case status.Serving:
		c.Status = "True"
		c.Message = serving(st)
	case status.Detached: // the driver works, but no instance watches it
		c.Status = "Unknown"
	case status.Starting:
		c.Message = "phase " + st.Phase
		if st.Reason != "" {
			c.Message += ": " + st.Reason
		}
	case status.Absent:
		c.Reason = "Stopped"
		c.Message = "the driver was taken down"
	}
	return c
}

func camel(s status.State) string { return strings.ToUpper(string(s[:1])) + string(s[1:]) }

// reportCondition writes the condition when it has changed, and from time to time as a heartbeat.
// An instance that does not hold the node's lock reports no condition.
func (r *Reporter) reportCondition(ctx context.Context, st status.Snapshot, final bool) {
	now := r.now()
	if !st.Holding() || !r.condition.ready(now) {
		return
	}
	c := conditionOf(st)
	since := now.Sub(r.reportedAt)
	sameState := c.Status == r.reported.Status && c.Reason == r.reported.Reason
	sameMessage := c.Message == r.reported.Message
	switch {
	case sameState && sameMessage && (since < heartbeat || final):
		return
	case sameState && !sameMessage && since < messageEvery && !final:
		return
	}
	if c.Status != r.reported.Status {
		c.Changed = now
	}
	err := r.o.Client.SetCondition(ctx, r.o.Node, now, c)
	r.condition.result(ctx, now, err)
	if err == nil {
		r.reported = c
		r.reportedAt = now
	}
}
