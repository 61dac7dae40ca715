package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/driver-container/driver-container/node/daemons"
)

// NodeObject is what is read of a node.
type NodeObject struct {
	Metadata struct {
		ResourceVersion     string
		Labels, Annotations map[string]string
	}
	Spec struct {
		Unschedulable bool
		Taints        []json.RawMessage
	}
}

// Patch is a part of a JSON merge patch; nil removes a key.
type Patch map[string]any

// GetNode reads a node. It needs the verb get on nodes.
func (c *Client) GetNode(ctx context.Context, name string) (n NodeObject, err error) {
	const most = 8 << 20 // a kubelet may list thousands of images
	err = c.onNode(ctx, name, Request{Method: http.MethodGet, Most: most}, &n)
	return n, err
}

// onNode sends a request about a node, or a part of it.
func (c *Client) onNode(
	ctx context.Context,
	name string,
	r Request,
	answer any,
	part ...string,
) error {
	if name == "" {
		return noCluster("the name of the node is not known: set NODE_NAME from spec.nodeName")
	}
	r.Path = Path(append([]string{"api", "v1", "nodes", name}, part...)...)
	return c.Do(ctx, r, answer)
}

func (c *Client) patchNode(ctx context.Context, name string, patch Patch) error {
	return c.onNode(
		ctx,
		name,
		Request{Method: http.MethodPatch, Kind: MergePatch, Body: patch, Metadata: true},
		nil,
	)
}

// ChangeNode reads a node, calls edit for a patch, and applies the whole patch or nothing. When the
// node was changed in between, it calls edit again. A nil patch means that there is nothing to do.
// It needs get and patch on nodes.
func (c *Client) ChangeNode(ctx context.Context, name string, edit func(NodeObject) (Patch, error)) error {
	const tries = 10
	for try := 1; ; try++ {
		n, err := c.GetNode(ctx, name)
		if err != nil {
			return err
		}
		patch, err := edit(n)
		if err != nil || patch == nil {
			return err
		}
		metadata, ok := patch["metadata"].(Patch)
		if !ok {
			metadata = Patch{}
			patch["metadata"] = metadata
		}
		// the server refuses the patch when the node has changed since
		metadata["resourceVersion"] = n.Metadata.ResourceVersion
		err = c.patchNode(ctx, name, patch)
		if answer, ok := errors.AsType[*StatusError](err); !ok || answer.Code != http.StatusConflict || try == tries {
			return err
		}
		if !daemons.Sleep(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond)) { //nolint:gosec // jitter
			return ctx.Err()
		}
	}
}

// Annotation returns the value of a node's annotation; "" when the node does not have it. It needs
// the verb get on nodes.
func (c *Client) Annotation(ctx context.Context, node, key string) (string, error) {
	var n NodeObject
	err := c.onNode(ctx, node, Request{Method: http.MethodGet, Metadata: true}, &n)
	return n.Metadata.Annotations[key], err
}

// Annotate sets a node's annotation. It needs the verb patch on nodes.
func (c *Client) Annotate(ctx context.Context, node, key, value string) error {
	return c.patchNode(ctx, node, Patch{"metadata": Patch{"annotations": Patch{key: value}}})
}

// RemoveAnnotation removes a node's annotation if it has this value. Another value stays and is no
// error. It needs get and patch on nodes.
func (c *Client) RemoveAnnotation(ctx context.Context, node, key, value string) error {
	return c.ChangeNode(ctx, node, func(n NodeObject) (Patch, error) {
		if now, ok := n.Metadata.Annotations[key]; !ok || now != value {
			return nil, nil
		}
		return Patch{"metadata": Patch{"annotations": Patch{key: nil}}}, nil
	})
}

// RemoveTaints removes the taints with these keys from a node, whatever their values and effects,
// and returns the keys of those that it removed. Other taints stay as they are. It needs get and
// patch on nodes.
func (c *Client) RemoveTaints(
	ctx context.Context,
	node string,
	keys []string,
) (removed []string, err error) {
	err = c.ChangeNode(ctx, node, func(n NodeObject) (Patch, error) {
		removed = nil
		left := make([]json.RawMessage, 0, len(n.Spec.Taints))
		for _, raw := range n.Spec.Taints {
			var taint struct{ Key string }
			if err := json.Unmarshal(raw, &taint); err != nil {
				return nil, fmt.Errorf("read the taints of node %s: %w", node, err)
			}
			if slices.Contains(keys, taint.Key) {
				removed = append(removed, taint.Key)
			} else {
				left = append(left, raw)
			}
		}
		if len(removed) == 0 {
			return nil, nil
		}
		return Patch{"spec": Patch{"taints": left}}, nil
	})
	slices.Sort(removed)
	return slices.Compact(removed), err
}
