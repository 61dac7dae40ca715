// Package apitest is an API server for tests. It has the few objects that node/kubernetes writes and follows
// the rules of the real server: it refuses another token, another content type, a field that does not exist,
// an Event in the wrong namespace. A test that passes with it is therefore meaningful. Tests add what else
// they need with Handle. It is no full Kubernetes API server: ci/cluster has that.
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
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Server is the API server. Change its fields only through Do.
type Server struct {
	URL    string
	Folder string // of the service account: token, ca.crt, namespace

	mu    sync.Mutex
	calls http.ServeMux
	State State
}

// State is the content of the server and its behaviour.
type State struct {
	Token string
	// "VERB RESOURCE" that the service account may not do: "patch nodes/status"
	Denied    []string
	Down      bool            // every answer is 503
	Pods      map[string]any  // by NAMESPACE/NAME
	Node      corev1.Node     // its resourceVersion follows from what else it has
	Events    []*corev1.Event // in the order in which they were created
	Requests  []string        // "METHOD PATH", all of them
	OnRequest func(s *State)  // called before each request is handled
}

// NodeName is the name of the only node.
const NodeName = "node-1"

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := Offline()
	web := httptest.NewTLSServer(s)
	t.Cleanup(web.Close)
	s.URL = web.URL
	s.Folder = t.TempDir()
	s.put(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	s.put(t, "namespace", "gpu\n")
	s.SetToken(t, "token-1")
	return s
}

// Offline returns a server without a network, for a client's Transport: it wants an empty token.
func Offline() *Server {
	s := &Server{}
	s.State.Node.Name = NodeName
	s.State.Node.Annotations = map[string]string{}
	st := &s.State
	const merge, node, events = "application/merge-patch+json", "/api/v1/nodes/" + NodeName, "/api/v1/namespaces/{namespace}/events"
	s.Handle("get nodes", "GET "+node, "", func(*http.Request) (any, error) { return &st.Node, nil })
	s.Handle("patch nodes", "PATCH "+node, merge, st.patchNode)
	s.Handle("patch nodes/status", "PATCH "+node+"/status", "application/strategic-merge-patch+json", st.patchStatus)
	s.Handle("get pods", "GET /api/v1/namespaces/{namespace}/pods/{name}", "", st.pod)
	s.Handle("create events", "POST "+events, whole, st.createEvent)
	s.Handle("patch events", "PATCH "+events+"/{name}", merge, st.patchEvent)
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

// Refuse returns an answer with an error code.
func Refuse(code int, format string, args ...any) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Code: int32(code), Message: fmt.Sprintf(format, args...)}}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.State
	st.Requests = append(st.Requests, req.Method+" "+req.URL.Path)
	if st.OnRequest != nil {
		st.OnRequest(st)
	}
	st.Node.ResourceVersion = fmt.Sprint(st.Node.Labels, st.Node.Annotations, st.Node.Spec)
	s.calls.ServeHTTP(w, req)
}

// Handle adds a call: "VERB RESOURCE", as in State.Denied, a pattern of http.ServeMux, the type of the body, ""
// without one, and what answers it with the state locked. An answer of nil is that of a path that there is not.
func (s *Server) Handle(does, pattern, kind string, answer func(*http.Request) (any, error)) {
	s.calls.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		object, err := s.State.answer(does, kind, req, answer)
		switch e, isStatus := errors.AsType[*apierrors.StatusError](err); {
		case err != nil && !isStatus:
			object = Refuse(http.StatusBadRequest, "%v", err).ErrStatus
		case err != nil:
			object = e.ErrStatus
		case object == nil:
			http.NotFound(w, req)
			return
		case req.Header.Get("Accept") == partial:
			object = map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": s.State.Node.ObjectMeta}
		}
		w.Header().Set("Content-Type", whole)
		if status, ok := object.(metav1.Status); ok {
			if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
			}
			w.WriteHeader(int(status.Code))
		}
		_ = json.NewEncoder(w).Encode(object)
	})
}

// The media types that are asked for: the real server answers 406 to other values, such as v=1.
const (
	whole   = "application/json"
	partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// refusal says why a call is not answered at all.
func (st *State) refusal(does, kind string, req *http.Request) error {
	accept := req.Header.Get("Accept")
	got := req.Header.Get("Content-Type")
	verb, resource, _ := strings.Cut(does, " ")
	switch {
	case st.Down:
		return Refuse(http.StatusServiceUnavailable, "the server is currently unable to handle the request")
	case req.Header.Get("Authorization") != "Bearer "+st.Token:
		return Refuse(http.StatusUnauthorized, "Unauthorized")
	case kind != got:
		return Refuse(http.StatusUnsupportedMediaType, "%s: %s", does, got)
	case slices.Contains(st.Denied, does):
		return Refuse(http.StatusForbidden,
			"%s is forbidden: User \"system:serviceaccount:gpu:nvidia-driver\" cannot %s resource %q in API group \"\"", resource, verb, resource)
	case accept != partial && (accept != whole || verb == "patch"), accept == partial && does == "get pods": // nobody needs a whole node back
		return Refuse(http.StatusNotAcceptable,
			"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf")
	}
	return nil
}

// answer calls what answers a request, unless it is refused.
func (st *State) answer(does, kind string, req *http.Request, call func(*http.Request) (any, error)) (any, error) {
	err := st.refusal(does, kind, req)
	if err != nil {
		return nil, err
	}
	return call(req)
}

func (st *State) pod(req *http.Request) (any, error) {
	pod, ok := st.Pods[req.PathValue("namespace")+"/"+req.PathValue("name")]
	if !ok {
		return nil, Refuse(http.StatusNotFound, "pods %q not found", req.PathValue("name"))
	}
	return pod, nil
}

// Decode decodes JSON and refuses fields that there are not.
func Decode(body io.Reader, into any) error {
	d := json.NewDecoder(io.LimitReader(body, 1<<20))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// patched is an object after the patch in a request.
func patched[V any](object V, merge func(document, patch []byte) ([]byte, error), req *http.Request) (after V, err error) {
	patch, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		return after, err
	}
	document, err := json.Marshal(object)
	if err != nil {
		return after, err
	}
	document, err = merge(document, patch)
	if err != nil {
		return after, err
	}
	return after, Decode(bytes.NewReader(document), &after)
}

func (st *State) patchStatus(req *http.Request) (any, error) {
	after, err := patched(st.Node, func(document, patch []byte) ([]byte, error) {
		return strategicpatch.StrategicMergePatch(document, patch, corev1.Node{})
	}, req)
	if err != nil {
		return nil, err
	}
	for _, c := range after.Status.Conditions {
		if c.Type == "" || !slices.Contains([]corev1.ConditionStatus{"True", "False", "Unknown"}, c.Status) || c.LastHeartbeatTime.IsZero() {
			return nil, Refuse(http.StatusUnprocessableEntity, "condition %+v", c)
		}
	}
	st.Node.Status = after.Status
	return &st.Node, nil
}

func (st *State) patchNode(req *http.Request) (any, error) {
	after, err := patched(st.Node, jsonpatch.MergePatch, req)
	if err != nil {
		return nil, err
	}
	if after.ResourceVersion != st.Node.ResourceVersion {
		return nil, Refuse(http.StatusConflict, "the object has been modified")
	}
	st.Node = after
	return &st.Node, nil
}

func (st *State) event(namespace, name string) int {
	return slices.IndexFunc(st.Events, func(e *corev1.Event) bool { return e.Namespace == namespace && e.Name == name })
}

func (st *State) patchEvent(req *http.Request) (any, error) {
	i := st.event(req.PathValue("namespace"), req.PathValue("name"))
	if i < 0 {
		return nil, Refuse(http.StatusNotFound, "events %q not found", req.PathValue("name"))
	}
	after, err := patched(*st.Events[i], jsonpatch.MergePatch, req)
	if err != nil {
		return nil, err
	}
	st.Events[i] = &after
	return &after, nil
}

func (st *State) createEvent(req *http.Request) (any, error) {
	var e corev1.Event
	if err := Decode(req.Body, &e); err != nil {
		return nil, err
	}
	namespace := req.PathValue("namespace")
	about := e.InvolvedObject
	switch {
	case e.APIVersion != "v1" || e.Kind != "Event" || e.Namespace != namespace || e.Name == "" || len(e.Name) > 253:
		return nil, Refuse(http.StatusBadRequest, "%+v", e)
	case cmp.Or(about.Namespace, "default") != namespace:
		return nil, Refuse(http.StatusUnprocessableEntity, "involvedObject.namespace: Invalid value: %q: does not match event.namespace", about.Namespace)
	case about.Kind == "Node" && about.Namespace != "", about.Kind == "Pod" && about.Namespace == "", about.Name == "", about.APIVersion != "v1":
		return nil, Refuse(http.StatusUnprocessableEntity, "involvedObject: %+v", about)
	case len(e.Message) > 1024, e.Reason == "", len(e.Reason) > 128, e.Type != "Normal" && e.Type != "Warning", e.Count < 1,
		e.LastTimestamp.Before(&e.FirstTimestamp), e.ReportingController == "", e.ReportingController != e.Source.Component:
		return nil, Refuse(http.StatusUnprocessableEntity, "%+v", e)
	case st.event(namespace, e.Name) >= 0:
		return nil, Refuse(http.StatusConflict, "events %q already exists", e.Name)
	}
	st.Events = append(st.Events, &e)
	return &e, nil
}
