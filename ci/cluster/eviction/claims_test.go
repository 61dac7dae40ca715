package eviction

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// allocation is what the cluster has where NVIDIA's DRA driver allocates the GPUs: its class and its kubelet
// plugin, and another maker's driver.
const allocation = `
{kind: List, apiVersion: v1, items: [
  {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}},
  {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: nic}, spec: {selectors: [{cel: {expression: "device.driver == 'net.example.com'"}}]}},
  {apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: gpu, namespace: team}, spec: {spec: {devices: {requests: [{name: d, exactly: {deviceClassName: gpu}}]}}}},
  {apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: nic, namespace: team}, spec: {spec: {devices: {requests: [{name: d, exactly: {deviceClassName: nic}}]}}}},
  {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: kubelet-plugin, namespace: team}, spec: {selector: {matchLabels: {app: kubelet-plugin}}, template: {
    metadata: {labels: {app: kubelet-plugin}}, spec: {nodeSelector: {nvidia.com/gpu.deploy.dra-driver: "true"}, tolerations: [{operator: Exists}], containers: [{name: c, image: none}]}}}}]}`

// slice publishes devices of a driver on a node.
const slice = `{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %[1]s-%[2]s}, spec: {nodeName: %[1]s, driver: %[2]s,
  pool: {name: %[1]s, generation: 1, resourceSliceCount: 1}, devices: [{name: device-0}, {name: device-1}, {name: device-2}]}}`

// claimants makes pods with a claim on the nodes of a site; source is that of their claim.
const claimants = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: team}, spec: {replicas: %[3]d, selector: {matchLabels: {app: %[1]s}},
  template: {metadata: {labels: {app: %[1]s}, finalizers: [%[5]s]}, spec: {nodeSelector: {site: %[2]q}, resourceClaims: [{name: d, %[4]s}],
  containers: [{name: c, image: none, resources: {claims: [{name: d}]}}]}}}}`

// TestResourceClaims: claims that the real scheduler allocates, those from templates made by the real
// controller. Nodes, pods and devices are simulated.
func TestResourceClaims(t *testing.T) {
	begin := time.Now()
	s := newStage(t, "evict.resourceClaims=true")
	require.Value(s.KubectlInput(allocation, "apply", "-f", "-"))(t)
	t.Logf("the cluster with the chart stood after %s", time.Since(begin).Round(time.Second))
	for name, test := range map[string]func(*testing.T, *stage){"claims": testClaims, "deleted": testClaimDeleted, "not-served": testNotServed} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, s) })
	}
}

// claimSite is a site whose GPUs the DRA driver allocates: a claim that pods share, and one that is made for
// each pod.
func (s *stage) claimSite(t *testing.T, name string, finalizers string) *site {
	t.Helper()
	e := s.site(t, name, 0)
	e.Kubectl("label", "node", name, deploy+"dra-driver=true")
	objects := []string{
		fmt.Sprintf(slice, name, "gpu.nvidia.com"), fmt.Sprintf(slice, name, "net.example.com"),
		fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: shared-%s, namespace: team}, spec: {devices: {requests: [{name: d, exactly: {deviceClassName: gpu}}]}}}`, name),
		fmt.Sprintf(claimants, "shared-"+name, name, 2, "resourceClaimName: shared-"+name, finalizers),
		fmt.Sprintf(claimants, "made-"+name, name, 1, "resourceClaimTemplateName: gpu", ""),
		fmt.Sprintf(claimants, "nic-"+name, name, 1, "resourceClaimTemplateName: nic", ""),
	}
	require.Value(e.KubectlInput(strings.Join(objects, "\n---\n"), "apply", "-f", "-"))(t)
	e.running("shared-"+name+"=2", "made-"+name+"=1", "nic-"+name+"=1", "kubelet-plugin=1")
	return e
}

// running waits for numbers of pods by app.
func (e *site) running(want ...string) {
	e.t.Helper()
	e.Wait(limit, "pods on "+e.name, func() error {
		counts, err := e.counts()
		for _, w := range want {
			app, n, _ := strings.Cut(w, "=")
			if err == nil && fmt.Sprint(counts[app]) != n {
				err = fmt.Errorf("running: %v, want %s", counts, w)
			}
		}
		return err
	})
}

// testClaims: pods with claims leave first, then the operands, the kubelet plugin last. All come back, and
// the pod whose device is another driver's stays.
func testClaims(t *testing.T, s *stage) {
	e := s.claimSite(t, "claims", "")
	nic := e.podOf("nic-claims")
	pod := e.driverPod()
	h := e.watch()
	e.start(pod, "", "")
	defer e.driver(pod)()
	e.Wait(limit, "the end", func() error { _, err := e.event("GPUEvictionDone"); return err })
	e.running("shared-claims=2", "made-claims=1", "nic-claims=1", "kubelet-plugin=1", "plugin=1")
	assert.Equalf(t, nic, e.podOf("nic-claims"), "the pod with another driver's device")
	history := h.stop()
	t.Logf("%v", history)
	for _, pair := range [][2]string{
		{"end shared-claims", "pause device-plugin"}, {"end made-claims", "pause device-plugin"}, {"end plugin", "pause dra-driver"},
		{"pause dra-driver", "end kubelet-plugin"}, {"end kubelet-plugin", "resume dra-driver"}, {"end kubelet-plugin", "uncordon"},
	} {
		history.before(t, pair[0], pair[1])
	}
	n := e.node()
	if n.Spec.Unschedulable || n.Labels[deploy+"dra-driver"] != "true" || n.Labels[deploy+"device-plugin"] != "true" {
		t.Errorf("left: %v, cordoned %v", n.Labels, n.Spec.Unschedulable)
	}
}

// testClaimDeleted: a claim is deleted, by force, while its pods end. The kubelet still needs the
// plugin for them, so it stays until they are gone.
func testClaimDeleted(t *testing.T, s *stage) {
	e := s.claimSite(t, "deleted", "example.org/stay")
	pod := e.driverPod()
	h := e.watch()
	a := e.start(pod, "", "")
	defer e.driver(pod)()
	e.Wait(limit, "an eviction under way", func() error {
		if strings.Count(a.log.String(), "evicted pod=team/shared-deleted-") != 2 {
			return fmt.Errorf("it said %q", a.log.String())
		}
		return nil
	})
	e.Kubectl("patch", "resourceclaim", "shared-deleted", "-n", team, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	e.Kubectl("delete", "resourceclaim", "shared-deleted", "-n", team)
	e.running("kubelet-plugin=1", "plugin=1")
	time.Sleep(5 * time.Second)
	n := e.node()
	if !n.Spec.Unschedulable || n.Labels[deploy+"dra-driver"] != "true" || n.Labels[deploy+"device-plugin"] != "true" {
		t.Errorf("while pods with a deleted claim end: %v, cordoned %v", n.Labels, n.Spec.Unschedulable)
	}
	for name := range strings.FieldsSeq(e.Kubectl("get", "pods", "-n", team, "-l", "app=shared-deleted", "-o", "name")) {
		e.Kubectl("patch", name, "-n", team, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}
	e.Wait(limit, "the end", func() error { _, err := e.event("GPUEvictionDone"); return err })
	history := h.stop()
	history.before(t, "end shared-deleted", "pause device-plugin")
	history.before(t, "end shared-deleted", "pause dra-driver")
}

// testNotServed: the API server answers for versions that it does not have. Pods that request a GPU leave,
// pods with claims stay, and so does the kubelet plugin.
func testNotServed(t *testing.T, s *stage) {
	e := s.claimSite(t, "not-served", "")
	e.deployment("train-not-served", "not-served", 1)
	e.running("train-not-served=1")
	before, plugin := e.podOf("made-not-served"), e.podOf("kubelet-plugin")
	pod := e.driverPod()
	server := strings.TrimSpace(e.Kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"))
	w := newWire(t, server, e.ca, func(string, bool) bool { return false })
	w.path = func(path string) string {
		return strings.Replace(path, "/apis/resource.k8s.io/v1/", "/apis/resource.k8s.io/v1alpha1/", 1)
	}
	a := e.start(pod, w.URL, w.ca)
	defer e.driver(pod)()
	e.Wait(limit, "the end", func() error { _, err := e.event("GPUEvictionDone"); return err })
	assert.Equal(t, before, e.podOf("made-not-served"))
	assert.Equal(t, plugin, e.podOf("kubelet-plugin"))
	assert.Equal(t, 1, strings.Count(a.log.String(), "the API server serves no ResourceClaims"))
}
