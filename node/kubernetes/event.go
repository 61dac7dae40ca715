package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// Object is the subject of an Event. Nodes have no namespace, and their UID is their name, as in
// the kubelet's Events: kubectl describe node looks for both.
type Object struct {
	Kind      string `json:"kind"` // Pod or Node
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Version   string `json:"apiVersion"`
}

// Pod returns the object of a pod.
func Pod(namespace, name, uid string) Object {
	return Object{Kind: "Pod", Namespace: namespace, Name: name, UID: uid, Version: "v1"}
}

// Node returns the object of a node.
func Node(name string) Object { return Object{Kind: "Node", Name: name, UID: name, Version: "v1"} }

// Event is a message for kubectl describe and kubectl get events.
type Event struct {
	About   Object
	Part    string // of the object, such as a GPU's address: parts have Events of their own
	Warning bool   // false: type Normal
	Reason  string // CamelCase, one word
	Message string
}

// namespace returns the namespace of the Event: that of the pod, or "default" for a node, as the
// API requires.
func (e Event) namespace() string {
	if e.About.Namespace == "" {
		return "default"
	}
	return e.About.Namespace
}

// createEvent creates an Event that happened count times and returns its name. It needs the verb
// create on events in that namespace.
func (c *Client) createEvent(ctx context.Context, e Event, host string, first, last time.Time, count int) (string, error) {
	if e.About.Name == "" || e.About.Kind == "Pod" && e.About.Namespace == "" {
		return "", noCluster("name and namespace of the %s are not known: set POD_NAME, POD_NAMESPACE, POD_UID and NODE_NAME", e.About.Kind)
	}
	kind := "Normal"
	if e.Warning {
		kind = "Warning"
	}
	name := fmt.Sprintf("%s.%016x", e.About.Name[:min(len(e.About.Name), 200)], rand.Uint64()) //nolint:gosec // a name, not a secret
	body := Patch{
		"apiVersion": "v1", "kind": "Event", "metadata": Patch{"name": name, "namespace": e.namespace()}, "involvedObject": e.About,
		"reason": e.Reason, "message": truncate(e.Message, maxMessage), "type": kind, "count": count,
		"firstTimestamp": formatTime(first), "lastTimestamp": formatTime(last),
		"source": Patch{"component": c.Name, "host": host}, "reportingComponent": c.Name, "reportingInstance": e.About.Name,
	}
	return name, c.Do(ctx, Request{Method: http.MethodPost, Path: Path("api", "v1", "namespaces", e.namespace(), "events"), Kind: JSON, Body: body, Metadata: true}, nil)
}

// raiseEvent sets the count of an Event that happened again. It needs the verb patch on events.
// ErrNotFound means that the server has deleted the Event (after an hour).
func (c *Client) raiseEvent(
	ctx context.Context,
	e Event,
	name string,
	last time.Time,
	count int,
) error {
	body := Patch{"count": count, "lastTimestamp": formatTime(last)}
	return c.Do(
		ctx,
		Request{
			Method:   http.MethodPatch,
			Path:     Path("api", "v1", "namespaces", e.namespace(), "events", name),
			Kind:     MergePatch,
			Body:     body,
			Metadata: true,
		},
		nil,
	)
}
