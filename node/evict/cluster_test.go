package evict

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

	"github.com/driver-container/driver-container/node/kubernetes"
)

const nodeName = "gpu-1"

// cluster is an API server for one node. It is as strict as the real one where that matters, and stricter
// elsewhere: an unexpected call, a patch without resourceVersion, or a field that no such object has fails
// the test. The client talks to it without a network, so that it works with the clock of testing/synctest.
type cluster struct {
	t  *testing.T
	mu sync.Mutex

	node    *corev1.Node
	pods    []*corev1.Pod
	events  []corev1.Event
	patches int // patches of the node that were applied
	ends    map[types.UID]time.Time

	takes  time.Duration                        // how long a pod takes to end
	budget func(pod string) *metav1.Status      // refuses an eviction; nil: none
	fail   func(r *http.Request) *metav1.Status // refuses any request; nil: none
	cut    func(calls int, applied bool) bool   // the connection breaks when it returns true
	calls  int
	grace  *int64 // of the last eviction

	dra dra // Dynamic Resource Allocation
}

func newCluster(t *testing.T, pods ...*corev1.Pod) *cluster {
	c := &cluster{t: t, pods: pods, ends: map[types.UID]time.Time{}, takes: 5 * time.Second, node: &corev1.Node{}}
	c.node.Name, c.node.ResourceVersion, c.node.Annotations = nodeName, "100", map[string]string{}
	c.node.Labels = map[string]string{
		"kubernetes.io/hostname":                nodeName,
		deployPrefix + "driver":                 "true",
		deployPrefix + "device-plugin":          "true",
		deployPrefix + "dcgm-exporter":          "false",
		deployPrefix + "client":                 "batch",
		deployPrefix + "node-status-exporter":   "true",
		"feature.node.kubernetes.io/pci-10de.x": "true",
	}
	return c
}

// client returns the real client, connected to this server.
func (c *cluster) client() *kubernetes.Client {
	client := kubernetes.New("http://cluster.test", "")
	client.Name, client.Transport = component, c
	return client
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
	w.Header().Set("Content-Type", "application/json")
	if code, answer := c.answer(r); code == 0 {
		http.Error(w, "404 page not found", http.StatusNotFound)
	} else {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer)
	}
	if c.cut != nil && c.cut(c.calls, true) {
		return nil, errCut
	}
	return w.Result(), nil
}

// answer returns 0 for a path that the server does not know.
func (c *cluster) answer(r *http.Request) (code int, object any) {
	if c.fail != nil {
		if st := c.fail(r); st != nil {
			return int(st.Code), st
		}
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	parts := strings.Split(path, "/")
	switch {
	case r.Method == "GET" && path == "nodes/"+nodeName:
		return 200, c.node
	case r.Method == "PATCH" && path == "nodes/"+nodeName:
		return c.patchNode(r)
	case r.Method == "GET" && path == "pods":
		return 200, c.list(r)
	case r.Method == "POST" && len(parts) == 5 && parts[2] == "pods" && parts[4] == "eviction":
		return c.evict(r, parts[1], parts[3])
	case r.Method == "POST" && len(parts) == 3 && parts[2] == "events":
		return c.createEvent(r, parts[1])
	case r.Method == "PATCH" && len(parts) == 4 && parts[2] == "events":
		return 200, nil // node/kubernetes counts
	case strings.HasPrefix(r.URL.Path, "/apis/resource.k8s.io/"):
		return c.getClaim(r)
	}
	c.t.Errorf("the program has no business with %s %s", r.Method, r.URL)
	return refuse(403, "forbidden")
}

// read decodes a body and fails on fields that its type does not have.
func (c *cluster) read(r *http.Request, kind string, into any) {
	c.t.Helper()
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil || r.Header.Get("Content-Type") != kind {
		c.t.Errorf("%s %s (%s): %v", r.Method, r.URL.Path, r.Header.Get("Content-Type"), err)
	}
}

func (c *cluster) patchNode(r *http.Request) (int, any) {
	var patch struct {
		Metadata struct {
			ResourceVersion     string
			Annotations, Labels map[string]*string
		}
		Spec *struct{ Unschedulable *bool }
	}
	c.read(r, kubernetes.MergePatch, &patch)
	if patch.Metadata.ResourceVersion != c.node.ResourceVersion {
		return refuse(409, "the object has been modified")
	}
	merge(c.node.Annotations, patch.Metadata.Annotations)
	merge(c.node.Labels, patch.Metadata.Labels)
	if patch.Spec != nil {
		c.node.Spec.Unschedulable = patch.Spec.Unschedulable != nil && *patch.Spec.Unschedulable
	}
	for _, key := range slices.Sorted(maps.Keys(patch.Metadata.Labels)) {
		verb := "resume "
		if strings.Contains(c.node.Labels[key], pausedSuffix) {
			verb = "pause "
		}
		c.note(verb + strings.TrimPrefix(key, deployPrefix))
	}
	c.patches++
	c.bump()
	return 200, c.node
}

func merge(into map[string]string, changes map[string]*string) {
	for key, value := range changes {
		if delete(into, key); value != nil {
			into[key] = *value
		}
	}
}

// bump changes the node's resourceVersion.
func (c *cluster) bump() {
	version, _ := strconv.Atoi(c.node.ResourceVersion)
	c.node.ResourceVersion = strconv.Itoa(version + 1)
}

// list answers in pages of two pods. Before that it does what the kubelet and the DaemonSets' controller
// would do.
func (c *cluster) list(r *http.Request) corev1.PodList {
	q := r.URL.Query()
	if q.Get("fieldSelector") != "spec.nodeName="+nodeName || q.Get("limit") == "" {
		c.t.Errorf("pods of other nodes are asked for, or all at once: %s", r.URL)
	}
	from, _ := strconv.Atoi(q.Get("continue"))
	if from == 0 {
		c.play()
	}
	var list corev1.PodList
	for i := from; i < len(c.pods) && i < from+2; i++ {
		list.Items = append(list.Items, *c.pods[i].DeepCopy())
	}
	if from+2 < len(c.pods) {
		list.Continue = strconv.Itoa(from + 2)
	}
	return list
}

func (c *cluster) play() {
	var stay []*corev1.Pod
	for _, p := range c.pods {
		for key, value := range p.Spec.NodeSelector {
			if c.node.Labels[key] != value {
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

func (c *cluster) evict(r *http.Request, namespace, name string) (int, any) {
	var e policyv1.Eviction
	c.read(r, kubernetes.JSON, &e)
	if e.Name != name || e.Namespace != namespace || e.DeleteOptions == nil || e.DeleteOptions.Preconditions == nil || e.Kind != "Eviction" || e.APIVersion != "policy/v1" {
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
			return refuse(409, "the UID in the precondition does not match")
		}
		if c.budget != nil {
			if st := c.budget(namespace + "/" + name); st != nil {
				return int(st.Code), st
			}
		}
		if !dry {
			if !c.node.Spec.Unschedulable {
				c.t.Errorf("%s is evicted from a node that is not cordoned", name)
			}
			c.end(p)
		}
		return 201, metav1.Status{Status: "Success", Code: 201}
	}
	return refuse(404, "not found")
}

func (c *cluster) createEvent(r *http.Request, namespace string) (int, any) {
	var e corev1.Event
	c.read(r, kubernetes.JSON, &e)
	if e.Namespace != namespace || e.Source.Component != "driver-evict" { // apitest knows the other rules of Events
		c.t.Errorf("event: %+v", e)
	}
	c.events = append(c.events, e)
	return 201, e
}

func (c *cluster) annotate(key, value string) {
	if c.node.Annotations[key] = value; value == "" {
		delete(c.node.Annotations, key)
	}
	c.bump()
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
	n := c.node.DeepCopy()
	return view{n.Labels, n.Annotations, n.Spec.Unschedulable, c.patches, c.calls, slices.Clone(c.events)}
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

func refusal(code int32, text string) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Message: text}
}

func refuse(code int32, text string) (int, any) { return int(code), refusal(code, text) }

// budgetSays is the API server's answer when a budget prevents an eviction
// (pkg/registry/core/pod/storage/eviction.go).
func budgetSays(name string) *metav1.Status {
	return caused(refusal(429, "Cannot evict pod as it would violate the pod's disruption budget."), policyv1.DisruptionBudgetCause,
		fmt.Sprintf("The disruption budget %s needs 1 healthy pods and has 1 currently", name))
}

func caused(st *metav1.Status, cause metav1.CauseType, text string) *metav1.Status {
	st.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: cause, Message: text}}}
	return st
}
