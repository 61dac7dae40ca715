package apitest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decodeStrict decodes JSON and refuses unknown fields.
func decodeStrict(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return refuse(http.StatusBadRequest, "%s: %v", body, err)
	}
	return nil
}

func (st *State) metadata() any {
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
		"metadata": map[string]any{"name": NodeName, "annotations": maps.Clone(st.Annotations)}}
}

// node reads and patches the node's annotations.
func (st *State) node(req *http.Request, kind string, body []byte) (any, error) {
	if req.Method == http.MethodGet && req.Header.Get("Accept") == "application/json" { // for its taints
		return map[string]any{"kind": "Node", "apiVersion": "v1", "spec": map[string]any{"taints": slices.Clone(st.Taints)}}, st.authorize(req, "get", "whole nodes")
	}
	if req.Method == http.MethodGet {
		return st.metadata(), st.authorize(req, "get", "nodes")
	}
	if req.Method != http.MethodPatch {
		return nil, refuse(http.StatusMethodNotAllowed, "%s", req.Method)
	}
	if err := st.authorize(req, "patch", "nodes"); err != nil {
		return nil, err
	}
	switch kind {
	case "application/merge-patch+json":
		var patch struct {
			Metadata struct {
				Annotations map[string]*string `json:"annotations"`
			} `json:"metadata"`
		}
		if err := decodeStrict(body, &patch); err != nil {
			return nil, err
		}
		for key, value := range patch.Metadata.Annotations {
			if delete(st.Annotations, key); value != nil {
				st.Annotations[key] = *value
			}
		}
	case "application/json-patch+json":
		if err := st.jsonPatch(body); err != nil {
			return nil, err
		}
	default:
		return nil, refuse(http.StatusUnsupportedMediaType, "the body of the request was in an unknown format: %q", kind)
	}
	return st.metadata(), nil
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op, Path string
	Value    any
}

// patchTaints does all of the operations on the node's taints, or none.
func (st *State) patchTaints(ops []operation) error {
	next := slices.Clone(st.Taints)
	for _, op := range ops {
		at, ok := strings.CutPrefix(op.Path, "/spec/taints/")
		i, err := strconv.Atoi(at)
		if !ok || err != nil || i < 0 || i >= len(next) {
			return refuse(http.StatusUnprocessableEntity, "path %q", op.Path)
		}
		switch {
		case op.Op == "test" && !reflect.DeepEqual(op.Value, any(next[i])):
			return refuse(http.StatusUnprocessableEntity, "the server rejected our request due to an error in our request")
		case op.Op == "remove":
			next = slices.Delete(next, i, i+1)
		case op.Op != "test":
			return refuse(http.StatusUnprocessableEntity, "%s %s", op.Op, op.Path)
		}
	}
	st.Taints = next
	return nil
}

func (st *State) jsonPatch(body []byte) error {
	var ops []operation
	if err := decodeStrict(body, &ops); err != nil {
		return err
	}
	if len(ops) > 0 && strings.HasPrefix(ops[0].Path, "/spec/taints/") {
		return st.patchTaints(ops)
	}
	next := maps.Clone(st.Annotations)
	for _, op := range ops {
		key, ok := strings.CutPrefix(op.Path, "/metadata/annotations/")
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		value, there := next[key]
		switch {
		case !ok || strings.Contains(op.Path[len("/metadata/annotations/"):], "/"):
			return refuse(http.StatusUnprocessableEntity, "path %q", op.Path)
		case op.Op == "test" && (!there || any(value) != op.Value):
			return refuse(http.StatusUnprocessableEntity, "the server rejected our request due to an error in our request")
		case op.Op == "remove" && there:
			delete(next, key)
		case op.Op != "test":
			return refuse(http.StatusUnprocessableEntity, "%s %s", op.Op, op.Path)
		}
	}
	st.Annotations = next
	return nil
}

// status merges conditions by their type, as the strategic merge does.
func (st *State) status(req *http.Request, kind string, body []byte) (any, error) {
	if req.Method != http.MethodPatch || kind != "application/strategic-merge-patch+json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "%s %s", req.Method, kind)
	}
	if err := st.authorize(req, "patch", "nodes/status"); err != nil {
		return nil, err
	}
	var patch struct {
		Status struct {
			Conditions []struct {
				Type, Status, Reason, Message string
				Heartbeat                     *time.Time `json:"lastHeartbeatTime"`
				Transition                    *time.Time `json:"lastTransitionTime"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := decodeStrict(body, &patch); err != nil {
		return nil, err
	}
	for _, c := range patch.Status.Conditions {
		if c.Type == "" || !slices.Contains([]string{"True", "False", "Unknown"}, c.Status) || c.Heartbeat == nil {
			return nil, refuse(http.StatusUnprocessableEntity, "condition %+v", c)
		}
		i := slices.IndexFunc(st.Conditions, func(o map[string]any) bool { return o["type"] == c.Type })
		if i < 0 {
			st.Conditions = append(st.Conditions, map[string]any{"type": c.Type})
			i = len(st.Conditions) - 1
		}
		merged := st.Conditions[i]
		merged["status"], merged["reason"], merged["message"], merged["lastHeartbeatTime"] = c.Status, c.Reason, c.Message, *c.Heartbeat
		if c.Transition != nil {
			merged["lastTransitionTime"] = *c.Transition
		}
	}
	return st.metadata(), nil
}

// pod reads a pod.
func (st *State) pod(req *http.Request, name string) (any, error) {
	if req.Method != http.MethodGet {
		return nil, refuse(http.StatusMethodNotAllowed, "%s", req.Method)
	}
	if err := st.authorize(req, "get", "pods"); err != nil {
		return nil, err
	}
	pod, ok := st.Pods[name]
	if !ok {
		return nil, refuse(http.StatusNotFound, "pods %q not found", name)
	}
	return pod, nil
}

// event has the fields of an Event (core v1) that are used.
type event struct {
	APIVersion, Kind string
	Metadata         struct{ Name, Namespace string }
	InvolvedObject   struct{ APIVersion, Kind, Namespace, Name, UID string }
	Reason, Message  string
	Type             string
	Source           struct{ Component, Host string }
	FirstTimestamp   time.Time
	LastTimestamp    time.Time
	Count            int
	Component        string `json:"reportingComponent"`
	Instance         string `json:"reportingInstance"`
}

func (st *State) createEvent(req *http.Request, namespace, kind string, body []byte) (any, error) {
	if req.Method != http.MethodPost || kind != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "%s %s", req.Method, kind)
	}
	if err := st.authorize(req, "create", "events"); err != nil {
		return nil, err
	}
	var e event
	if err := decodeStrict(body, &e); err != nil {
		return nil, err
	}
	about := e.InvolvedObject
	home := about.Namespace
	if home == "" {
		home = "default"
	}
	switch {
	case e.APIVersion != "v1" || e.Kind != "Event" || e.Metadata.Namespace != namespace || e.Metadata.Name == "" || len(e.Metadata.Name) > 253:
		return nil, refuse(http.StatusBadRequest, "%+v", e)
	case home != namespace:
		return nil, refuse(http.StatusUnprocessableEntity, "involvedObject.namespace: Invalid value: %q: does not match event.namespace", about.Namespace)
	case about.Kind == "Node" && about.Namespace != "", about.Kind == "Pod" && about.Namespace == "", about.Name == "", about.APIVersion != "v1":
		return nil, refuse(http.StatusUnprocessableEntity, "involvedObject: %+v", about)
	case len(e.Message) > 1024, e.Reason == "", len(e.Reason) > 128, e.Type != "Normal" && e.Type != "Warning", e.Count < 1, e.LastTimestamp.Before(e.FirstTimestamp), e.Component == "":
		return nil, refuse(http.StatusUnprocessableEntity, "%+v", e)
	}
	name := namespace + "/" + e.Metadata.Name
	if _, there := st.Events[name]; there {
		return nil, refuse(http.StatusConflict, "events %q already exists", name)
	}
	st.Events[name] = map[string]any{}
	return st.metadata(), json.Unmarshal(body, ref(st.Events, name))
}

func (st *State) patchEvent(req *http.Request, namespace, name, kind string, body []byte) (any, error) {
	if req.Method != http.MethodPatch || kind != "application/merge-patch+json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "%s %s", req.Method, kind)
	}
	if err := st.authorize(req, "patch", "events"); err != nil {
		return nil, err
	}
	e, ok := st.Events[namespace+"/"+name]
	if !ok {
		return nil, refuse(http.StatusNotFound, "events %q not found", name)
	}
	var patch struct {
		Count         int       `json:"count"`
		LastTimestamp time.Time `json:"lastTimestamp"`
	}
	if err := decodeStrict(body, &patch); err != nil {
		return nil, err
	}
	e["count"], e["lastTimestamp"] = float64(patch.Count), patch.LastTimestamp
	return st.metadata(), nil
}

// ref returns a pointer to a map's element for decoding.
func ref(m map[string]map[string]any, name string) *map[string]any {
	e := m[name]
	return &e
}
