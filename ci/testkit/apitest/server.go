// Package apitest is an API server for tests. It has the few objects that node/kubernetes writes and follows
// the rules of the real server: it refuses another token, another content type, a field that does not exist,
// an Event in the wrong namespace. A test that passes with it is therefore meaningful. It is no full
// Kubernetes API server: ci/cluster has that.
package apitest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Server is the API server. Change its fields only through Do.
type Server struct {
	URL    string
	Folder string // of the service account: token, ca.crt, namespace

	mu    sync.Mutex
	State State
}

// State is the content of the server and its behaviour.
type State struct {
	Token     string
	Denied    []string // "VERB RESOURCE" that the service account may not do: "patch nodes/status"
	Down      bool     // every answer is 503
	Pods      map[string]any
	Node      corev1.Node
	Events    map[string]*corev1.Event // by NAMESPACE/NAME, as Pods
	Requests  []string                 // "METHOD PATH", all of them
	OnRequest func(s *State)           // called before each request is handled
}

// NodeName is the name of the only node.
const NodeName = "node-1"

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{State: State{Token: "token-1", Events: map[string]*corev1.Event{}}}
	s.State.Node.Name, s.State.Node.Annotations = NodeName, map[string]string{}
	web := httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(web.Close)
	s.URL, s.Folder = web.URL, t.TempDir()
	s.put(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	s.put(t, "namespace", "gpu\n")
	s.SetToken(t, s.State.Token)
	return s
}

// SetToken changes the token in the server and in the folder, as the kubelet does.
func (s *Server) SetToken(t testing.TB, token string) {
	t.Helper()
	s.Do(func(st *State) { st.Token = token })
	s.put(t, "token", token+"\n")
}

func (s *Server) put(t testing.TB, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.Folder, name), []byte(text), 0o600))
}

// Do reads or changes the state.
func (s *Server) Do(f func(st *State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.State)
}

// Told lists the Events as "KIND REASON xCOUNT: MESSAGE", sorted.
func (s *Server) Told() (list []string) {
	s.Do(func(st *State) {
		for _, e := range st.Events {
			list = append(list, fmt.Sprintf("%s %s %s x%d: %s", e.InvolvedObject.Kind, e.Type, e.Reason, e.Count, e.Message))
		}
	})
	slices.Sort(list)
	return list
}

// Condition returns the node's condition of a type; an empty one when it has none.
func (s *Server) Condition(kind string) (cond corev1.NodeCondition) {
	s.Do(func(st *State) {
		for _, c := range st.Node.Status.Conditions {
			if string(c.Type) == kind {
				cond = c
			}
		}
	})
	return cond
}

// refusal is an answer with an error code.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

func (s *Server) serve(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.State
	st.Requests = append(st.Requests, req.Method+" "+req.URL.Path)
	if st.OnRequest != nil {
		st.OnRequest(st)
	}
	st.Node.ResourceVersion = fmt.Sprint(st.Node.Annotations, st.Node.Spec.Taints)
	answer, err := st.answer(req)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		code := http.StatusBadRequest
		if r, ok := errors.AsType[*refusal](err); ok {
			code = r.code
		}
		w.WriteHeader(code)
		answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": err.Error(), "code": code}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// The media types that are asked for: the real server answers 406 to other values, such as v=1.
const (
	whole   = "application/json"
	partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// calls are the requests that the server knows: VERB RESOURCE CONTENT-TYPE.
var calls = []string{
	"get nodes ", "get pods ", "patch nodes application/merge-patch+json", "patch nodes/status application/strategic-merge-patch+json",
	"create events application/json", "patch events application/merge-patch+json",
}

func (st *State) answer(req *http.Request) (any, error) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	switch {
	case err != nil:
		return nil, err
	case st.Down:
		return nil, refuse(http.StatusServiceUnavailable, "the server is currently unable to handle the request")
	case req.Header.Get("Authorization") != "Bearer "+st.Token:
		return nil, refuse(http.StatusUnauthorized, "Unauthorized")
	case req.URL.RawQuery != "":
		return nil, refuse(http.StatusBadRequest, "query %q", req.URL.RawQuery)
	}
	resource, name := "", "" // NAMESPACE/NAME
	parts := strings.Split(req.URL.Path, "/")
	switch namespaced := strings.HasPrefix(req.URL.Path, "/api/v1/namespaces/"); {
	case namespaced && len(parts) >= 6:
		resource, name = parts[5], parts[4]+"/"+strings.Join(parts[6:], "/")
	case strings.HasPrefix(req.URL.Path+"/", "/api/v1/nodes/"+NodeName+"/"):
		resource = strings.TrimSuffix("nodes/"+strings.Join(parts[5:], "/"), "/")
	default:
		return nil, refuse(http.StatusNotFound, "%s: the server could not find the requested resource", req.URL.Path)
	}
	verb, kind := map[string]string{"GET": "get", "PATCH": "patch", "POST": "create"}[req.Method], req.Header.Get("Content-Type")
	if verb == "get" {
		kind = ""
	}
	accept := req.Header.Get("Accept")
	switch {
	case !slices.Contains(calls, verb+" "+resource+" "+kind):
		return nil, refuse(http.StatusUnsupportedMediaType, "%s %s %s", req.Method, resource, kind)
	case slices.Contains(st.Denied, verb+" "+resource):
		return nil, refuse(http.StatusForbidden,
			"%s is forbidden: User \"system:serviceaccount:gpu:nvidia-driver\" cannot %s resource %q in API group \"\"", resource, verb, resource)
	case accept != partial && (accept != whole || verb != "get"), accept == partial && resource == "pods":
		return nil, refuse(http.StatusNotAcceptable,
			"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf")
	}
	switch {
	case resource == "pods":
		pod, ok := st.Pods[name]
		if !ok {
			return nil, refuse(http.StatusNotFound, "pods %q not found", name)
		}
		return pod, nil
	case resource == "events":
		err = st.event(verb, name, body)
	case verb == "patch":
		err = st.patchNode(resource, body)
	}
	if accept == partial {
		return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": st.Node.ObjectMeta}, err
	}
	return st.Node, err
}

// decode decodes JSON and refuses fields that there are not.
func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// patched is an object after a patch.
func patched[V any](object V, merge func(document, patch []byte) ([]byte, error), patch []byte) (after V, err error) {
	document, err := json.Marshal(object)
	if err == nil {
		document, err = merge(document, patch)
	}
	if err == nil {
		err = decode(document, &after)
	}
	return after, err
}

// patchNode changes the node or, as another resource, its status.
func (st *State) patchNode(resource string, patch []byte) error {
	if resource == "nodes/status" {
		after, err := patched(st.Node, func(document, patch []byte) ([]byte, error) {
			return strategicpatch.StrategicMergePatch(document, patch, corev1.Node{})
		}, patch)
		for _, c := range after.Status.Conditions {
			if c.Type == "" || !slices.Contains([]corev1.ConditionStatus{"True", "False", "Unknown"}, c.Status) || c.LastHeartbeatTime.IsZero() {
				return refuse(http.StatusUnprocessableEntity, "condition %+v", c)
			}
		}
		if err == nil {
			st.Node.Status = after.Status
		}
		return err
	}
	after, err := patched(st.Node, jsonpatch.MergePatch, patch)
	if err == nil && after.ResourceVersion != st.Node.ResourceVersion {
		return refuse(http.StatusConflict, "the object has been modified")
	}
	if err == nil {
		st.Node = after
	}
	return err
}

// event creates or patches an Event.
func (st *State) event(verb, name string, body []byte) error {
	if verb == "patch" {
		e, ok := st.Events[name]
		if !ok {
			return refuse(http.StatusNotFound, "events %q not found", name)
		}
		after, err := patched(*e, jsonpatch.MergePatch, body)
		if err == nil {
			*e = after
		}
		return err
	}
	var e corev1.Event
	if err := decode(body, &e); err != nil {
		return err
	}
	namespace, about := strings.TrimSuffix(name, "/"), e.InvolvedObject
	switch {
	case e.APIVersion != "v1" || e.Kind != "Event" || e.Namespace != namespace || e.Name == "" || len(e.Name) > 253:
		return refuse(http.StatusBadRequest, "%+v", e)
	case cmp.Or(about.Namespace, "default") != namespace:
		return refuse(http.StatusUnprocessableEntity, "involvedObject.namespace: Invalid value: %q: does not match event.namespace", about.Namespace)
	case about.Kind == "Node" && about.Namespace != "", about.Kind == "Pod" && about.Namespace == "", about.Name == "", about.APIVersion != "v1":
		return refuse(http.StatusUnprocessableEntity, "involvedObject: %+v", about)
	case len(e.Message) > 1024, e.Reason == "", len(e.Reason) > 128, e.Type != "Normal" && e.Type != "Warning", e.Count < 1,
		e.LastTimestamp.Before(&e.FirstTimestamp), e.ReportingController == "":
		return refuse(http.StatusUnprocessableEntity, "%+v", e)
	case st.Events[name+e.Name] != nil:
		return refuse(http.StatusConflict, "events %q already exists", name)
	}
	st.Events[name+e.Name] = &e
	return nil
}
