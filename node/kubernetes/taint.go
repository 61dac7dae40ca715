package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// taintTries limits how often taints are read again because another client changed them in between.
const taintTries = 5

// RemoveTaints removes the taints with these keys from a node, whatever their values and effects, and returns
// the keys of those that it removed. Other taints stay as they are, also those that another client adds or
// removes meanwhile. It needs get and patch on nodes.
func (c *Client) RemoveTaints(ctx context.Context, node string, keys []string) (removed []string, err error) {
	if node == "" {
		return nil, errNoNode()
	}
	for range taintTries {
		removed, err = c.removeTaints(ctx, node, keys)
		if !errors.Is(err, errTest) {
			return removed, err
		}
	}
	return nil, fmt.Errorf("%w: the taints of node %s were changed by another client at each of %d attempts", ErrUnreachable, node, taintTries)
}

// removeTaints makes one attempt. The patch tests each taint that it removes, in its place, so that it does
// nothing if the list has changed since it was read. A test of the node's resourceVersion would fail at every
// heartbeat.
func (c *Client) removeTaints(ctx context.Context, node string, keys []string) (removed []string, err error) {
	var object struct {
		Spec struct {
			Taints []json.RawMessage `json:"taints"`
		} `json:"spec"`
	}
	path := urlPath("api", "v1", "nodes", node)
	if err := c.do(ctx, request{method: http.MethodGet, path: path}, &object); err != nil {
		return nil, err
	}
	type operation struct {
		Op    string          `json:"op"`
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value,omitempty"`
	}
	var body []operation
	for i, raw := range slices.Backward(object.Spec.Taints) { // the last first: a removal moves those behind it
		var taint struct {
			Key string `json:"key"`
		}
		if err := json.Unmarshal(raw, &taint); err != nil {
			return nil, fmt.Errorf("read the taints of node %s: %w", node, err)
		}
		if slices.Contains(keys, taint.Key) {
			at := fmt.Sprintf("/spec/taints/%d", i)
			body = append(body, operation{"test", at, raw}, operation{"remove", at, nil})
			removed = append(removed, taint.Key)
		}
	}
	if len(body) == 0 {
		return nil, nil
	}
	slices.Sort(removed)
	return slices.Compact(removed), c.do(ctx, request{method: http.MethodPatch, path: path, kind: jsonPatch, body: body, metadata: true}, nil)
}
