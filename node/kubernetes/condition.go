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
	Changed time.Time // when Status became what it is; zero: the server keeps what it has
}

// maxMessage is how long a message of a condition or an Event may be: what the API allows for Events.
const maxMessage = 1024

// SetCondition writes a condition of a node, and leaves the others as they are. It needs the verb patch on nodes/status.
func (c *Client) SetCondition(ctx context.Context, node string, now time.Time, cond Condition) error {
	if node == "" {
		return errNoNode()
	}
	value := map[string]any{
		"type": cond.Type, "status": cond.Status, "reason": cond.Reason, "message": cut(cond.Message, maxMessage), "lastHeartbeatTime": stamp(now),
	}
	if !cond.Changed.IsZero() {
		value["lastTransitionTime"] = stamp(cond.Changed)
	}
	body := map[string]any{"status": map[string]any{"conditions": []any{value}}} // merged by type: Kubernetes' strategic merge
	return c.do(ctx, request{method: http.MethodPatch, path: path("api", "v1", "nodes", node, "status"), kind: strategicPatch, body: body, metadata: true}, nil)
}

func errNoNode() error {
	return &noClusterError{errors.New("the name of the node is not known: set NODE_NAME from spec.nodeName")}
}

// stamp is how the API writes times.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
