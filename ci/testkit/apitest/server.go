// Package apitest is an API server for tests. It has the few objects that node/kubernetes writes and follows
// the rules of the real server: it refuses another token, another content type, a field that does not exist,
// an Event in the wrong namespace. A test that passes with it is therefore meaningful. It is no full
// Kubernetes API server: ci/cluster has that.
package apitest

import (
	"encoding/json"
	"encoding/pem"
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
	Token       string
	Denied      []string       // "VERB RESOURCE" that the service account may not do: "patch nodes/status"
	Down        bool           // every answer is 503
	Pods        map[string]any // by NAMESPACE/NAME
	Annotations map[string]string
	Taints      []map[string]any
	Conditions  []map[string]any
	Events      map[string]map[string]any // by NAMESPACE/NAME
	Requests    []string                  // "METHOD PATH", all of them
	OnRequest   func(s *State)            // called before each request is handled
}

// NodeName is the name of the only node.
const NodeName = "node-1"

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{State: State{Token: "token-1", Annotations: map[string]string{}, Events: map[string]map[string]any{}}}
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
			about, _ := e["involvedObject"].(map[string]any)
			list = append(list, fmt.Sprintf("%v %v %v x%v: %v", about["kind"], e["type"], e["reason"], e["count"], e["message"]))
		}
	})
	slices.Sort(list)
	return list
}

// Condition returns the node's condition of a type; nil when it has none.
func (s *Server) Condition(kind string) (cond map[string]any) {
	s.Do(func(st *State) {
		for _, c := range st.Conditions {
			if c["type"] == kind {
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
	answer, err := st.answer(req)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		code := http.StatusInternalServerError
		if r, ok := err.(*refusal); ok { //nolint:errorlint // refuse made it, it is never wrapped
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

// calls are the requests that the server knows: METHOD RESOURCE CONTENT-TYPE. name is NAMESPACE/NAME.
var calls = map[string]func(st *State, name string, body []byte) (any, error){
	"GET nodes ": func(st *State, _ string, _ []byte) (any, error) { return st.node(), nil }, //nolint:unparam // as all others
	"GET pods ":  (*State).pod,
	"PATCH nodes application/merge-patch+json":                  (*State).patchNode,
	"PATCH nodes/status application/strategic-merge-patch+json": (*State).patchStatus,
	"POST events application/json":                              (*State).createEvent,
	"PATCH events application/merge-patch+json":                 (*State).patchEvent,
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
	resource, name := "", ""
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
	call := calls[req.Method+" "+resource+" "+kind]
	accept := req.Header.Get("Accept")
	switch {
	case call == nil:
		return nil, refuse(http.StatusUnsupportedMediaType, "%s %s %s", req.Method, resource, kind)
	case slices.Contains(st.Denied, verb+" "+resource):
		return nil, refuse(http.StatusForbidden,
			"%s is forbidden: User \"system:serviceaccount:gpu:nvidia-driver\" cannot %s resource %q in API group \"\"", resource, verb, resource)
	case accept != partial && (accept != whole || verb != "get"), accept == partial && resource == "pods":
		return nil, refuse(http.StatusNotAcceptable,
			"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf")
	}
	object, err := call(st, name, body)
	if m, ok := object.(map[string]any); ok && accept == partial {
		object = map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": m["metadata"]}
	}
	return object, err
}
