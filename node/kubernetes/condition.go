package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Condition is a condition of a node.
type Condition struct {
	Type    string // "NVIDIADriverReady"
	Status  string // True, False or Unknown
	Reason  string // CamelCase, one word
	Message string
	Changed time.Time // when Status last changed; zero: the server keeps its value
}

// maxMessage is the limit for the message of a condition or an Event: the limit of the API for Events.
const maxMessage = 1024

// SetCondition writes one condition of a node and leaves the others unchanged. It needs the verb patch on
// nodes/status.
func (c *Client) SetCondition(ctx context.Context, node string, now time.Time, cond Condition) error {
	if node == "" {
		return errNoNode()
	}
	value := Patch{
		"type": cond.Type, "status": cond.Status, "reason": cond.Reason, "message": truncate(cond.Message, maxMessage), "lastHeartbeatTime": formatTime(now),
	}
	if !cond.Changed.IsZero() {
		value["lastTransitionTime"] = formatTime(cond.Changed)
	}
	// The strategic merge of Kubernetes merges conditions by type.
	body := Patch{"status": Patch{"conditions": []any{value}}}
	return c.Do(ctx, Request{Method: http.MethodPatch, Path: Path("api", "v1", "nodes", node, "status"), Kind: strategicPatch, Body: body, Metadata: true}, nil)
}

func errNoNode() error {
	return &noClusterError{errors.New("the name of the node is not known: set NODE_NAME from spec.nodeName")}
}

// formatTime returns a time in the format of the API.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
