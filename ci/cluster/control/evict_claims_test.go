package control_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
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
  template: {metadata: {labels: {app: %[1]s}}, spec: {nodeSelector: {site: %[2]q}, resourceClaims: [{name: d, %[4]s}],
  containers: [{name: c, image: none, resources: {claims: [{name: d}]}}]}}}}`

// claimSite is a site whose GPUs the DRA driver allocates: a claim that pods share, and one that is made for
// each pod.
func (s *stage) claimSite(t *testing.T, name string) *site {
	t.Helper()
	e := s.site(t, name, 1)
	objects := []string{
		fmt.Sprintf(slice, name, "gpu.nvidia.com"), fmt.Sprintf(slice, name, "net.example.com"),
		fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: shared-%s, namespace: team}, spec: {devices: {requests: [{name: d, exactly: {deviceClassName: gpu}}]}}}`, name),
		fmt.Sprintf(claimants, "shared-"+name, name, 2, "resourceClaimName: shared-"+name),
		fmt.Sprintf(claimants, "made-"+name, name, 1, "resourceClaimTemplateName: gpu"),
		fmt.Sprintf(claimants, "nic-"+name, name, 1, "resourceClaimTemplateName: nic"),
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

// podOf returns the name of an app's pod on the node.
func (e *site) podOf(app string) string {
	e.t.Helper()
	for _, p := range require.Value(e.pods())(e.t) {
		if p.Labels["app"] == app && p.DeletionTimestamp == nil {
			return p.Name
		}
	}
	e.t.Fatalf("%s has no pod of %s", e.name, app)
	return ""
}
