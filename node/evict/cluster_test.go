package evict

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/node/kubernetes"
)

const nodeName = apitest.NodeName

// cluster adds to an API server what happens to the pods of its node. An unexpected call fails the test. The
// client talks to it without a network, so that it works with the clock of testing/synctest.
type cluster struct {
	*apitest.Server
	t *testing.T

	node *corev1.Node // of the server
	pods []*corev1.Pod
	ends map[types.UID]time.Time

	takes  time.Duration                      // how long a pod takes to end
	budget func(pod string) error             // refuses an eviction; nil: none
	cut    func(calls int, applied bool) bool // the connection breaks when it returns true
	grace  *int64                             // of the last eviction
	again  func(gone *corev1.Pod) *corev1.Pod // what a controller makes when a pod has ended; nil: nothing

	dra dra // Dynamic Resource Allocation
}

func newCluster(t *testing.T, pods ...*corev1.Pod) *cluster {
	c := &cluster{Server: apitest.Offline(), t: t, pods: pods, ends: map[types.UID]time.Time{}, takes: 5 * time.Second}
	c.node = &c.State.Node
	c.node.Labels = map[string]string{
		"kubernetes.io/hostname":                nodeName,
		deployPrefix + "driver":                 "true",
		deployPrefix + "device-plugin":          "true",
		deployPrefix + "dcgm-exporter":          "false",
		deployPrefix + "client":                 "batch",
		deployPrefix + "node-status-exporter":   "true",
		"feature.node.kubernetes.io/pci-10de.x": "true",
	}
	c.Handle("list pods", "GET /api/v1/pods", "", c.list)
	c.Handle("create pods/eviction", "POST /api/v1/namespaces/{namespace}/pods/{name}/eviction", kubernetes.JSON, c.evict)
	c.Handle("get resourceclaims", "GET /apis/resource.k8s.io/{version}/namespaces/{namespace}/resourceclaims/{name}", "", c.getClaim)
	c.Handle("", "/", "", func(r *http.Request) (any, error) {
		t.Errorf("the program has no business with %s %s", r.Method, r.URL)
		return nil, nil
	})
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
	calls, cut, labels := 0, false, map[string]string{}
	c.locked(func() {
		calls, labels = len(c.State.Requests)+1, maps.Clone(c.node.Labels)
		cut = c.cut != nil && c.cut(calls, false)
	})
	if cut {
		return nil, errCut
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	c.locked(func() {
		for _, key := range slices.Sorted(maps.Keys(c.node.Labels)) {
			switch value := c.node.Labels[key]; {
			case value == labels[key]:
			case strings.Contains(value, pausedSuffix):
				c.note("pause " + strings.TrimPrefix(key, deployPrefix))
			default:
				c.note("resume " + strings.TrimPrefix(key, deployPrefix))
			}
		}
		cut = c.cut != nil && c.cut(calls, true)
	})
	if cut {
		return nil, errCut
	}
	return w.Result(), nil
}

// list answers in pages of two pods. Before that it does what the kubelet and the DaemonSets' controller
// would do.
func (c *cluster) list(r *http.Request) (any, error) {
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
	return list, nil
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
			if c.again != nil {
				if p := c.again(p); p != nil {
					stay = append(stay, p)
				}
			}
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

func (c *cluster) evict(r *http.Request) (any, error) {
	var e policyv1.Eviction
	name, namespace := r.PathValue("name"), r.PathValue("namespace")
	if err := apitest.Decode(r.Body, &e); err != nil || e.Name != name || e.Namespace != namespace || e.DeleteOptions == nil ||
		e.DeleteOptions.Preconditions == nil || e.Kind != "Eviction" || e.APIVersion != "policy/v1" {
		c.t.Errorf("eviction of %s/%s: %+v, %v", namespace, name, e, err)
	}
	c.grace = e.DeleteOptions.GracePeriodSeconds
	dry := r.URL.Query().Get("dryRun") == "All"
	if dry != (len(e.DeleteOptions.DryRun) == 1) {
		c.t.Errorf("dry run in the request and in its options differ: %s, %v", r.URL, e.DeleteOptions.DryRun)
	}
	i := slices.IndexFunc(c.pods, func(p *corev1.Pod) bool { return p.Name == name && p.Namespace == namespace })
	if i < 0 {
		return nil, apitest.Refuse(404, "not found")
	}
	if c.pods[i].UID != *e.DeleteOptions.Preconditions.UID {
		return nil, apitest.Refuse(409, "the UID in the precondition does not match")
	}
	if c.budget != nil {
		if err := c.budget(namespace + "/" + name); err != nil {
			return nil, err
		}
	}
	if !dry {
		if !c.node.Spec.Unschedulable {
			c.t.Errorf("%s is evicted from a node that is not cordoned", name)
		}
		c.end(c.pods[i])
	}
	return &e, nil
}

func (c *cluster) annotate(key, value string) {
	if c.node.Annotations[key] = value; value == "" {
		delete(c.node.Annotations, key)
	}
}

// view is a consistent snapshot for a test.
type view struct {
	labels, annotations map[string]string
	cordoned            bool
	patches, calls      int
	events              []*corev1.Event
}

func (c *cluster) see() (v view) {
	c.Do(func(st *apitest.State) {
		n := st.Node.DeepCopy()
		v = view{n.Labels, n.Annotations, n.Spec.Unschedulable, 0, len(st.Requests), slices.Clone(st.Events)}
		for _, r := range st.Requests {
			if r == "PATCH /api/v1/nodes/"+nodeName {
				v.patches++
			}
		}
	})
	return v
}

func (c *cluster) locked(f func()) { c.Do(func(*apitest.State) { f() }) }

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

// budgetSays is the API server's answer when a budget prevents an eviction
// (pkg/registry/core/pod/storage/eviction.go).
func budgetSays(name string) error {
	return caused(429, "Cannot evict pod as it would violate the pod's disruption budget.", policyv1.DisruptionBudgetCause,
		fmt.Sprintf("The disruption budget %s needs 1 healthy pods and has 1 currently", name))
}

func caused(code int, text string, cause metav1.CauseType, why string) error {
	refused := apitest.Refuse(code, "%s", text)
	refused.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: cause, Message: why}}}
	return refused
}
