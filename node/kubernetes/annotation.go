package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// Annotation returns the value of a node's annotation; "" when the node does not have it. It needs the verb
// get on nodes.
func (c *Client) Annotation(ctx context.Context, node, key string) (string, error) {
	if node == "" {
		return "", errNoNode()
	}
	var object struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	err := c.do(ctx, request{method: http.MethodGet, path: urlPath("api", "v1", "nodes", node), metadata: true}, &object)
	return object.Metadata.Annotations[key], err
}

// Annotate sets a node's annotation. It needs the verb patch on nodes.
func (c *Client) Annotate(ctx context.Context, node, key, value string) error {
	if node == "" {
		return errNoNode()
	}
	body := map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}}
	return c.do(ctx, request{method: http.MethodPatch, path: urlPath("api", "v1", "nodes", node), kind: mergePatch, body: body, metadata: true}, nil)
}

// RemoveAnnotation removes a node's annotation if it has this value. Another value stays and is no error. It
// needs get and patch on nodes.
func (c *Client) RemoveAnnotation(ctx context.Context, node, key, value string) error {
	now, err := c.Annotation(ctx, node, key)
	if err != nil || now != value {
		return err
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value string `json:"value,omitempty"`
	}
	pointer := "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key) // RFC 6901
	body := []operation{{"test", pointer, value}, {"remove", pointer, ""}}
	err = c.do(ctx, request{method: http.MethodPatch, path: urlPath("api", "v1", "nodes", node), kind: jsonPatch, body: body, metadata: true}, nil)
	if errors.Is(err, errTest) { // another client changed it first
		return nil
	}
	return err
}
