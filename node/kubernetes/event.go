package kubernetes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// Object is the subject of an Event. Nodes have no namespace, and their UID is their name, as in the
// kubelet's Events: kubectl describe node looks for both.
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
	Warning bool   // false: type Normal
	Reason  string // CamelCase, one word
	Message string
}

// eventObject is an Event in the API's form (core v1).
type eventObject struct {
	Version  string `json:"apiVersion"`
	Kind     string `json:"kind"`
	Metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	About   Object `json:"involvedObject"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Type    string `json:"type"`
	Source  struct {
		Component string `json:"component"`
		Host      string `json:"host,omitempty"`
	} `json:"source"`
	First      string `json:"firstTimestamp"`
	Last       string `json:"lastTimestamp"`
	Count      int    `json:"count"`
	Controller string `json:"reportingComponent"`
	Instance   string `json:"reportingInstance"`
}

// namespace returns the namespace of the Event: that of the pod, or "default" for a node, as the API
// requires.
func (e Event) namespace() string {
	if e.About.Namespace == "" {
		return "default"
	}
	return e.About.Namespace
}

// createEvent creates an Event that happened count times and returns its name. It needs the verb create on
// events in that namespace.
func (c *Client) createEvent(ctx context.Context, e Event, host string, first, last time.Time, count int) (string, error) {
	if e.About.Name == "" || e.About.Kind == "Pod" && e.About.Namespace == "" {
		return "", &noClusterError{fmt.Errorf("name and namespace of the %s are not known: set POD_NAME, POD_NAMESPACE, POD_UID and NODE_NAME", e.About.Kind)}
	}
	o := eventObject{Version: "v1", Kind: "Event", About: e.About, Reason: e.Reason, Message: truncate(e.Message, maxMessage), Type: "Normal",
		First: formatTime(first), Last: formatTime(last), Count: count, Controller: c.Name, Instance: e.About.Name}
	if e.Warning {
		o.Type = "Warning"
	}
	o.Source.Component, o.Source.Host = c.Name, host
	o.Metadata.Namespace = e.namespace()
	o.Metadata.Name = fmt.Sprintf("%s.%016x", e.About.Name[:min(len(e.About.Name), 200)], rand.Uint64()) //nolint:gosec // a name, not a secret
	return o.Metadata.Name, c.Do(ctx, Request{Method: http.MethodPost, Path: Path("api", "v1", "namespaces", o.Metadata.Namespace, "events"), Kind: JSON, Body: o, Metadata: true}, nil)
}

// raiseEvent sets the count of an Event that happened again. It needs the verb patch on events. ErrNotFound
// means that the server has deleted the Event (after an hour).
func (c *Client) raiseEvent(ctx context.Context, e Event, name string, last time.Time, count int) error {
	body := map[string]any{"count": count, "lastTimestamp": formatTime(last)}
	return c.Do(ctx, Request{Method: http.MethodPatch, Path: Path("api", "v1", "namespaces", e.namespace(), "events", name), Kind: MergePatch, Body: body, Metadata: true}, nil)
}
