package apitest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
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

// version is another one after every change of the node.
func (st *State) version() string { return fmt.Sprint(st.Annotations, st.Taints) }

func (st *State) node() map[string]any {
	metadata := map[string]any{"name": NodeName, "annotations": maps.Clone(st.Annotations), "resourceVersion": st.version()}
	return map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": map[string]any{"taints": slices.Clone(st.Taints)}}
}

// patchNode changes the node's annotations and taints.
func (st *State) patchNode(_ string, body []byte) (any, error) {
	var patch struct {
		Metadata struct {
			Annotations     map[string]*string `json:"annotations"`
			ResourceVersion string             `json:"resourceVersion"`
		} `json:"metadata"`
		Spec struct {
			Taints *[]map[string]any `json:"taints"`
		} `json:"spec"`
	}
	if err := decodeStrict(body, &patch); err != nil {
		return nil, err
	}
	if seen := patch.Metadata.ResourceVersion; seen != "" && seen != st.version() {
		return nil, refuse(http.StatusConflict, "the object has been modified")
	}
	for key, value := range patch.Metadata.Annotations {
		if delete(st.Annotations, key); value != nil {
			st.Annotations[key] = *value
		}
	}
	if patch.Spec.Taints != nil {
		st.Taints = *patch.Spec.Taints
	}
	return st.node(), nil
}

// patchStatus merges conditions by their type, as the strategic merge does.
func (st *State) patchStatus(_ string, body []byte) (any, error) {
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
	return st.node(), nil
}

func (st *State) pod(name string, _ []byte) (any, error) {
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

func (st *State) createEvent(name string, body []byte) (any, error) {
	namespace := strings.TrimSuffix(name, "/")
	var e event
	if err := decodeStrict(body, &e); err != nil {
		return nil, err
	}
	about := e.InvolvedObject
	home := cmp.Or(about.Namespace, "default")
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
	name += e.Metadata.Name
	if _, there := st.Events[name]; there {
		return nil, refuse(http.StatusConflict, "events %q already exists", name)
	}
	object := map[string]any{}
	st.Events[name] = object
	return st.node(), json.Unmarshal(body, &object)
}

func (st *State) patchEvent(name string, body []byte) (any, error) {
	e, ok := st.Events[name]
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
	return st.node(), nil
}
