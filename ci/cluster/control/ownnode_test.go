package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/evict"
	"github.com/driver-container/driver-container/node/kubernetes"
)

const (
	serviceAccount = "gpu-nvidia-driver"
	ownObjects     = `{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"v1","kind":"Node","metadata":{"name":"a","labels":{"team":"x","node-role.kubernetes.io/gpu":"","nvidia.com/gpu.deploy.dcgm":"true"},
			"annotations":{"note":"x"}}},
		{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}},
		{"apiVersion":"v1","kind":"Pod","metadata":{"name":"driver","namespace":"gpu"},"spec":{
			"nodeName":"a","serviceAccountName":"` + serviceAccount + `","automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]}},
		{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","namespace":"gpu"}},
		{"apiVersion":"v1","kind":"Pod","metadata":{"name":"other","namespace":"gpu"},"spec":{
			"nodeName":"b","automountServiceAccountToken":false,"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"secret"}]}]}}]}`
	starting  = "example.com/starting"
	nodeReady = `{"status":{"conditions":[{"type":"NVIDIADriverReady","status":"True"}]}}`
)

// account is a release of the chart with rbac.ownNodeOnly, and the tokens of its pod on node a and of no pod.
type account struct {
	*control.Plane
	pod, unbound *control.Plane
	client       *kubernetes.Client // of the pod
}

func newAccount(t *testing.T, values string, roles ...string) *account {
	t.Helper()
	p := control.Start(t, control.Config{})
	p.Kubectl("create", "namespace", "gpu")
	p.Helm("install", "gpu", "../../../deploy/chart", "-n", "gpu", "--set", "image.repository=r.example.com/d,image.tag=535.261.03-debian12",
		"--set", "rbac.ownNodeOnly=true,"+values)
	for _, role := range roles {
		p.Kubectl("create", "clusterrolebinding", "more-"+role, "--clusterrole="+role, "--serviceaccount=gpu:"+serviceAccount)
	}
	require.Value(p.KubectlInput(ownObjects, "create", "-f", "-"))(t)
	for _, node := range []string{"a", "b"} {
		p.Kubectl("taint", "node", node, corev1.TaintNodeNotReady+"-") // new nodes have it
		p.Kubectl("taint", "node", node, starting+"=x:NoSchedule", "example.com/other=y:NoSchedule", starting+":NoExecute")
	}
	require.NoError(t, patchNode(p, "a", `{"status":{"conditions":[{"type":"Ready","status":"True"}],"capacity":{"cpu":"4"}}}`, "status"))
	token := p.Kubectl("create", "token", serviceAccount, "-n", "gpu", "--bound-object-kind", "Pod", "--bound-object-name", "driver")
	a := &account{Plane: p, pod: p.WithToken(token), unbound: p.WithToken(p.Kubectl("create", "token", serviceAccount, "-n", "gpu"))}
	a.client = kubernetes.New(p.Account(token, "gpu"))
	p.Wait(time.Minute, "the policy works", func() error { // it takes effect some moments after it was made
		err := patchNode(a.unbound, "b", `{"metadata":{"annotations":{"x":"1"}}}`)
		if err == nil || !strings.Contains(err.Error(), "its own node only") {
			return errors.Join(err, errors.New("not yet"))
		}
		return nil
	})
	return a
}

func patchNode(p *control.Plane, node, body string, subresources ...string) error {
	clients, _ := p.Go()
	return assert.Err(clients.CoreV1().Nodes().Patch(p.T.Context(), node, types.StrategicMergePatchType, []byte(body), meta.PatchOptions{}, subresources...))
}

func (a *account) node(name string) *corev1.Node {
	a.T.Helper()
	clients, _ := a.Go()
	return require.Value(clients.CoreV1().Nodes().Get(a.T.Context(), name, meta.GetOptions{}))(a.T)
}

// everything are the values with all rights on a node.
const everything = "safeLoad=true,evictGPUPods=true,nodeCondition=true,startupTaints={" + starting + "}"

// Roles give the right to change all nodes. With the policy of rbac.ownNodeOnly a pod changes its own node only;
// a token of the same account that belongs to no pod changes no node.
func TestOwnNodeOnly(t *testing.T) {
	a := newAccount(t, everything)
	images := strings.Repeat(`{"names":["registry.example.com/some/image:1"],"sizeBytes":1},`, 2000) // a kubelet may list as many
	require.NoError(t, patchNode(a.Plane, "a", `{"status":{"images":[`+strings.TrimSuffix(images, ",")+`]}}`, "status"))
	const annotation = `{"metadata":{"annotations":{"` + evict.Annotation + `":"x"}}}`
	for name, body := range map[string]string{"metadata": annotation, "status": nodeReady} {
		subresources := []string{name}
		if name == "metadata" {
			subresources = nil
		}
		assert.NoError(t, patchNode(a.pod, "a", body, subresources...))
		assert.ErrorContains(t, patchNode(a.pod, "b", body, subresources...), "may change its own node only, not b")
		assert.ErrorContains(t, patchNode(a.unbound, "a", body, subresources...), "may change its own node only, not a")
	}
	a.Kubectl("annotate", "node", "b", "x=2") // the policy does not restrict other users

	before := a.node("a").Spec.Taints
	_, err := a.client.RemoveTaints(t.Context(), "a", []string{"example.com/other"})
	assert.ErrorIs(t, err, kubernetes.ErrForbidden)
	assert.ErrorContains(t, err, "may remove startup taints only, from a, not example.com/other")
	assert.Equal(t, fmt.Sprint(before), fmt.Sprint(a.node("a").Spec.Taints))
	removed, err := a.client.RemoveTaints(t.Context(), "a", []string{starting})
	assert.NoError(t, err)
	assert.Equal(t, starting, strings.Join(removed, " "))
	left := a.node("a").Spec.Taints
	assert.Equal(t, 1, len(left))
	assert.Equal(t, "example.com/other", left[0].Key)
	assert.ErrorIs(t, assert.Err(a.client.RemoveTaints(t.Context(), "b", []string{starting})), kubernetes.ErrForbidden)
	assert.Equal(t, 3, len(a.node("b").Spec.Taints))
}

// What the page says that a token can still do, because neither roles nor admission policies can limit it to a
// node: read and evict pods of other nodes. It can do no more with them.
func TestOwnNodeLimits(t *testing.T) {
	a := newAccount(t, everything)
	clients, _ := a.pod.Go()
	pods := clients.CoreV1().Pods("gpu")
	all := require.Value(clients.CoreV1().Pods("").List(t.Context(), meta.ListOptions{FieldSelector: "spec.nodeName=b"}))(t)
	assert.Equal(t, 1, len(all.Items))
	assert.Equal(t, "secret", all.Items[0].Spec.Containers[0].Env[0].Value)
	assert.Equal(t, true, apierrors.IsForbidden(pods.Delete(t.Context(), "other", meta.DeleteOptions{})))
	assert.Equal(t, true, apierrors.IsForbidden(assert.Err(pods.Get(t.Context(), "other", meta.GetOptions{}))))
	assert.Equal(t, true, apierrors.IsForbidden(assert.Err(clients.CoreV1().Secrets("gpu").List(t.Context(), meta.ListOptions{}))))
	eviction := &policy.Eviction{ObjectMeta: meta.ObjectMeta{Name: "other", Namespace: "gpu"}}
	assert.NoError(t, pods.EvictV1(t.Context(), eviction))
}

// patch is a combination of changes in one request.
type patch struct {
	changes []change
	status  bool // through the subresource
}

// randomPatch has one to three changes of different parts. What the server ignores is not among them: a spec
// through the status, and a status without it.
func randomPatch(random *rand.Rand, pool []change) patch {
	p := patch{status: random.IntN(2) == 0}
	picked := map[string]bool{}
	for range 1 + random.IntN(3) {
		c := pool[random.IntN(len(pool))]
		_, ofSpec := c.patch["spec"]
		ignored := p.status && ofSpec || !p.status && c.status
		if !ignored && !picked[c.part] {
			picked[c.part] = true
			p.changes = append(p.changes, c)
		}
	}
	return p
}

func (p patch) allowed() bool {
	return !slices.ContainsFunc(p.changes, func(c change) bool { return !c.allowed })
}

// body is the patch as JSON.
func (p patch) body(t *testing.T) string {
	t.Helper()
	merged := map[string]any{}
	for _, c := range p.changes {
		merge(merged, c.patch)
	}
	return string(require.Value(json.Marshal(merged))(t))
}

// merge adds a patch to another that changes other parts.
func merge(into, more map[string]any) {
	for key, value := range more {
		inner, ok := value.(map[string]any)
		if !ok {
			into[key] = value
			continue
		}
		target, ok := into[key].(map[string]any)
		if !ok {
			target = map[string]any{}
			into[key] = target
		}
		merge(target, inner)
	}
}

// send patches node a as its pod.
func (a *account) send(t *testing.T, p patch) error {
	t.Helper()
	if p.status {
		return patchNode(a.pod, "a", p.body(t), "status")
	}
	return patchNode(a.pod, "a", p.body(t))
}

// TestOwnNodeFields patches a node as its pod, with each change and at random: a patch works if all of its
// changes are allowed, and otherwise changes nothing. What may change of metadata may change through the
// status, too, and no more.
func TestOwnNodeFields(t *testing.T) {
	a := newAccount(t, everything)
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // a seed
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
	pool := changes()
	var patches []patch
	for _, c := range pool {
		patches = append(patches, patch{[]change{c}, c.status})
	}
	for range 250 {
		patches = append(patches, randomPatch(random, pool))
	}
	first := a.node("a")
	works := 0
	for _, p := range patches {
		if len(p.changes) == 0 {
			continue
		}
		before := a.node("a").ResourceVersion
		err := a.send(t, p)
		changed := a.node("a").ResourceVersion != before
		if p.allowed() != (err == nil) || p.allowed() != changed {
			t.Errorf("%s (status: %v): allowed: %v, changed: %v, %v", p.body(t), p.status, p.allowed(), changed, err)
		}
		if err == nil {
			works++
			a.reset(first)
			continue
		}
		assert.Equalf(t, true, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%s: %v", p.body(t), err)
	}
	assert.Equalf(t, true, works > 20, "%d of %d patches work", works, len(patches))
}

// reset gives the node back what a patch has changed.
func (a *account) reset(first *corev1.Node) {
	a.T.Helper()
	clients, _ := a.Go()
	now := a.node(first.Name)
	now.Labels = first.Labels
	now.Annotations = first.Annotations
	now.Spec = first.Spec
	now = require.Value(clients.CoreV1().Nodes().Update(a.T.Context(), now, meta.UpdateOptions{}))(a.T)
	now.Status = first.Status
	require.Value(clients.CoreV1().Nodes().UpdateStatus(a.T.Context(), now, meta.UpdateOptions{}))(a.T)
}

// What a value of the chart does not need does not change, whatever rights the account has otherwise.
func TestOwnNodeByValues(t *testing.T) {
	a := newAccount(t, "events=true", "cluster-admin")
	for _, c := range changes() {
		err := a.send(t, patch{[]change{c}, c.status})
		assert.Equalf(t, true, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), "%v: %v", c.patch, err)
	}
	clients, _ := a.pod.Go()
	nodes := clients.CoreV1().Nodes()
	err := nodes.Delete(t.Context(), "a", meta.DeleteOptions{})
	assert.ErrorContains(t, err, "may make or delete no node")
	_, err = nodes.Create(t.Context(), &corev1.Node{ObjectMeta: meta.ObjectMeta{Name: "c"}}, meta.CreateOptions{})
	assert.ErrorContains(t, err, "may make or delete no node")
}
