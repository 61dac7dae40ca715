package evict

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

const nodeName = "gpu-1"

// cluster is an API server for one node. It is as strict as the real one where that matters, and stricter
// elsewhere: an unexpected call, a patch without resourceVersion, or a field that no such object has fails
// the test. The real client talks to it without a network, so that it works with the clock of
// testing/synctest.
type cluster struct {
	t  *testing.T
	mu sync.Mutex

	version int
	node    map[string]any
	pods    []*corev1.Pod
	events  []corev1.Event
	patches int // patches of the node that were applied
	ends    map[types.UID]time.Time

	takes  time.Duration                        // how long a pod takes to end
	budget func(pod string) *metav1.Status      // refuses an eviction; nil: none
	fail   func(r *http.Request) *metav1.Status // refuses any request; nil: none
	meddle func()                               // called between a client's read of the node and its patch
	cut    func(calls int, applied bool) bool   // the connection breaks when it returns true
	calls  int
	grace  *int64 // of the last eviction

	dra dra // Dynamic Resource Allocation
}

func newCluster(t *testing.T, pods ...*corev1.Pod) *cluster {
	c := &cluster{t: t, pods: pods, ends: map[types.UID]time.Time{}, takes: 5 * time.Second, version: 100}
	c.node = map[string]any{"kind": "Node", "apiVersion": "v1",
		"metadata": map[string]any{"name": nodeName, "labels": map[string]any{
			"kubernetes.io/hostname":                nodeName,
			deployPrefix + "driver":                 "true",
			deployPrefix + "device-plugin":          "true",
			deployPrefix + "dcgm-exporter":          "false",
			deployPrefix + "client":                 "batch",
			deployPrefix + "node-status-exporter":   "true",
			"feature.node.kubernetes.io/pci-10de.x": "true",
		}, "annotations": map[string]any{}},
		"spec": map[string]any{"podCIDR": "10.0.0.0/24"}}
	return c
}

// client returns the real client, connected to this server.
func (c *cluster) client() *rest.RESTClient {
	core := require.Value(newClient(rest.Config{Host: "http://cluster.test", Transport: c, QPS: 1000, Burst: 1000}))(c.t)
	return core
}

var errCut = errors.New("connection reset by peer")

// RoundTrip replaces the network.
func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.cut != nil && c.cut(c.calls, false) {
		return nil, errCut
	}
	w := httptest.NewRecorder()
	c.serve(w, r)
	if c.cut != nil && c.cut(c.calls, true) {
		return nil, errCut
	}
	return w.Result(), nil
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	if c.fail != nil {
		if st := c.fail(r); st != nil {
			reply(w, int(st.Code), st)
			return
		}
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	parts := strings.Split(path, "/")
	switch {
	case r.Method == "GET" && path == "nodes/"+nodeName:
		reply(w, 200, c.node)
		if c.meddle != nil {
			c.meddle()
		}
	case r.Method == "PATCH" && path == "nodes/"+nodeName:
		c.patchNode(w, r)
	case r.Method == "GET" && path == "pods":
		c.list(w, r)
	case r.Method == "POST" && len(parts) == 5 && parts[2] == "pods" && parts[4] == "eviction":
		c.evict(w, r, parts[1], parts[3])
	case r.Method == "POST" && len(parts) == 3 && parts[2] == "events":
		c.createEvent(w, r, parts[1])
	case r.Method == "PATCH" && len(parts) == 4 && parts[2] == "events":
		c.patchEvent(w, r, parts[3])
	case strings.HasPrefix(r.URL.Path, "/apis/resource.k8s.io/"):
		c.getClaim(w, r)
	default:
		c.t.Errorf("the program has no business with %s %s", r.Method, r.URL)
		reply(w, 403, refusal(403, metav1.StatusReasonForbidden, "forbidden"))
	}
}

func (c *cluster) patchNode(w http.ResponseWriter, r *http.Request) {
	var patch map[string]any
	c.body(r, &patch)
	metadata, _ := patch["metadata"].(map[string]any)
	seen, ok := metadata["resourceVersion"].(string)
	if !ok {
		c.t.Errorf("a patch of the node does not say which version it is for: %v", patch)
	}
	for key := range patch {
		if key != "metadata" && key != "spec" {
			c.t.Errorf("a patch of the node changes its %s: %v", key, patch)
		}
	}
	if seen != strconv.Itoa(c.version) {
		reply(w, 409, refusal(409, metav1.StatusReasonConflict, "the object has been modified"))
		return
	}
	merge(c.node, patch)
	c.notePatch(patch)
	c.patches++
	c.bump()
	reply(w, 200, c.node)
}

// bump changes the node's resourceVersion, which is part of what clients read.
func (c *cluster) bump() {
	c.version++
	c.node["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(c.version)
}

// list answers in pages of two pods. Before that it does what the kubelet and the DaemonSets' controller
// would do.
func (c *cluster) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("fieldSelector") != "spec.nodeName="+nodeName || q.Get("limit") == "" {
		c.t.Errorf("pods of other nodes are asked for, or all at once: %s", r.URL)
	}
	from, _ := strconv.Atoi(q.Get("continue"))
	if from == 0 {
		c.play()
	}
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	for i := from; i < len(c.pods) && i < from+2; i++ {
		list.Items = append(list.Items, *c.pods[i])
	}
	if from+2 < len(c.pods) {
		list.Continue = strconv.Itoa(from + 2)
	}
	reply(w, 200, list)
}

func (c *cluster) play() {
	var stay []*corev1.Pod
	for _, p := range c.pods {
		for key, value := range p.Spec.NodeSelector {
			if c.label(key) != value {
				c.end(p)
			}
		}
		if end, ok := c.ends[p.UID]; !ok || time.Now().Before(end) || !c.mayEnd(p) {
			stay = append(stay, p)
		} else {
			c.note("end " + p.Name)
		}
	}
	c.pods = stay
	c.endDomain()
	c.restartPlugin()
}

// end does what a deletion does.
func (c *cluster) end(p *corev1.Pod) {
	if p.DeletionTimestamp == nil {
		now := metav1.Now()
		p.DeletionTimestamp = &now
		c.ends[p.UID] = now.Add(c.takes)
	}
}

func (c *cluster) evict(w http.ResponseWriter, r *http.Request, namespace, name string) {
	var e policyv1.Eviction
	c.object(r, &e)
	if e.Name != name || e.Namespace != namespace || e.DeleteOptions == nil || e.DeleteOptions.Preconditions == nil {
		c.t.Errorf("eviction of %s/%s: %+v", namespace, name, e)
	}
	c.grace = e.DeleteOptions.GracePeriodSeconds
	dry := r.URL.Query().Get("dryRun") == "All"
	if dry != (len(e.DeleteOptions.DryRun) == 1) {
		c.t.Errorf("dry run in the request and in its options differ: %s, %v", r.URL, e.DeleteOptions.DryRun)
	}
	for _, p := range c.pods {
		if p.Name != name || p.Namespace != namespace {
			continue
		}
		if p.UID != *e.DeleteOptions.Preconditions.UID {
			reply(w, 409, refusal(409, metav1.StatusReasonConflict, "the UID in the precondition does not match"))
			return
		}
		if c.budget != nil {
			if st := c.budget(namespace + "/" + name); st != nil {
				reply(w, int(st.Code), st)
				return
			}
		}
		if !dry {
			if !c.cordoned() {
				c.t.Errorf("%s is evicted from a node that is not cordoned", name)
			}
			c.end(p)
		}
		reply(w, 201, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success", Code: 201})
		return
	}
	reply(w, 404, refusal(404, metav1.StatusReasonNotFound, "not found"))
}

func (c *cluster) createEvent(w http.ResponseWriter, r *http.Request, namespace string) {
	var e corev1.Event
	c.object(r, &e)
	on := e.InvolvedObject
	if e.Namespace != namespace || on.Kind == "Node" && namespace != "default" || on.Kind == "Pod" && namespace != on.Namespace {
		c.t.Errorf("an Event of %s %s is in %s", on.Kind, on.Name, namespace)
	}
	if e.Message == "" || len(e.Message) > 1024 || e.Reason == "" || e.Count != 1 || e.Source.Component == "" {
		c.t.Errorf("event: %+v", e)
	}
	c.events = append(c.events, e)
	reply(w, 201, e)
}

func (c *cluster) patchEvent(w http.ResponseWriter, r *http.Request, name string) {
	var patch struct {
		Count         int32       `json:"count"`
		LastTimestamp metav1.Time `json:"lastTimestamp"`
	}
	c.body(r, &patch)
	for i := range c.events {
		if e := &c.events[i]; e.Name == name {
			e.Count, e.LastTimestamp = patch.Count, patch.LastTimestamp
			reply(w, 200, e)
			return
		}
	}
	reply(w, 404, refusal(404, metav1.StatusReasonNotFound, "not found"))
}

func (c *cluster) label(key string) string {
	value, _ := c.node["metadata"].(map[string]any)["labels"].(map[string]any)[key].(string)
	return value
}

func (c *cluster) annotation(key string) string {
	value, _ := c.node["metadata"].(map[string]any)["annotations"].(map[string]any)[key].(string)
	return value
}

func (c *cluster) annotate(key, value string) {
	annotations := c.node["metadata"].(map[string]any)["annotations"].(map[string]any)
	if annotations[key] = value; value == "" {
		delete(annotations, key)
	}
	c.bump()
}

func (c *cluster) cordoned() bool {
	_, ok := c.node["spec"].(map[string]any)["unschedulable"]
	return ok
}

// view is a consistent snapshot for a test.
type view struct {
	labels, annotations map[string]string
	cordoned            bool
	patches, calls      int
	events              []corev1.Event
}

func (c *cluster) see() view {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := view{labels: map[string]string{}, annotations: map[string]string{}, cordoned: c.cordoned(), patches: c.patches, calls: c.calls,
		events: slices.Clone(c.events)}
	metadata := c.node["metadata"].(map[string]any)
	for key := range metadata["labels"].(map[string]any) {
		v.labels[key] = c.label(key)
	}
	for key := range metadata["annotations"].(map[string]any) {
		v.annotations[key] = c.annotation(key)
	}
	return v
}

func (c *cluster) locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// reasons returns the reasons of the pod's Events in their order.
func (c *cluster) reasons() string {
	var out []string
	for _, e := range c.see().events {
		if e.InvolvedObject.Kind == "Pod" {
			out = append(out, strings.TrimPrefix(e.Reason, "GPUEviction"))
		}
	}
	return strings.Join(out, " ")
}
