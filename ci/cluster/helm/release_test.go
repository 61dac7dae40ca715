package helm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// previous is the chart of the version before. When the chart gets a new version, put its predecessor here:
// helm package.
const previous = "testdata/previous.tgz"

// settle is how long pods may take to start or to end: some seconds on an idle machine.
const settle = 2 * time.Minute

// nodes makes nodes for kwok with an NVIDIA device, labelled as node feature discovery labels them.
func nodes(t *testing.T, p *control.Plane, names ...string) {
	t.Helper()
	for _, name := range names {
		node(t, p, name, map[string]string{"feature.node.kubernetes.io/pci-10de.present": "true"})
	}
}

// node makes a node, with the labels that every kubelet sets in addition.
func node(t *testing.T, p *control.Plane, name string, labels map[string]string) {
	t.Helper()
	n := core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{core.LabelHostname: name, core.LabelOSStable: "linux"}}}
	maps.Copy(n.Labels, labels)
	clients, _ := p.Go()
	require.Value(clients.CoreV1().Nodes().Create(t.Context(), &n, meta.CreateOptions{}))(t)
}

// inventory lists all objects of the cluster, except those that controllers make and remove by themselves.
func inventory(t *testing.T, p *control.Plane) []string {
	t.Helper()
	var kinds []string
	for kind := range strings.FieldsSeq(p.Kubectl("api-resources", "--verbs=list", "-o", "name")) {
		if !slices.Contains([]string{"events", "events.events.k8s.io", "leases.coordination.k8s.io"}, kind) {
			kinds = append(kinds, kind)
		}
	}
	objects := strings.Fields(p.Kubectl("get", strings.Join(kinds, ","), "-A", "-o", `go-template={{range .items}}{{.kind}}/{{with .metadata.namespace}}{{.}}{{end}}/{{.metadata.name}}{{"\n"}}{{end}}`))
	slices.Sort(objects)
	return objects
}

func set(t *testing.T, p *control.Plane) apps.DaemonSet {
	t.Helper()
	return get[apps.DaemonSet](t, p, "-n", "gpu", "daemonset/gpu-nvidia-driver")
}

// TestRelease upgrades a release from the chart of the version before to this chart, with another driver and
// more rights, and into pools; rolls it back; and removes it. Each step leaves one driver pod on each
// node.
func TestRelease(t *testing.T) {
	p := control.Start(t, control.Config{Controllers: true, Scheduler: true, KWOK: true})
	nodes(t, p, "a", "b", "c")
	p.Kubectl("label", "nodes", "b", "c", "site=x")
	namespace(t, p, "gpu")
	p.Wait(settle, "the namespace is complete", func() error {
		_, err := p.TryKubectl("get", "-n", "gpu", "serviceaccount/default", "configmap/kube-root-ca.crt")
		return err
	})
	before := inventory(t, p)

	p.Helm(append([]string{"install", "gpu", previous, "-n", "gpu", "--wait", "--timeout=5m"}, minimal()...)...)
	first := set(t, p)
	images(t, p, "registry.example.com/driver:535.261.03-debian12")

	p.Helm(append([]string{"upgrade", "gpu", chart, "-n", "gpu", "--wait", "--timeout=5m"},
		minimal("image.tag=550.163.01-debian12", "evictGPUPods=true", "nodeCondition=true", "rbac.ownNodeOnly=true", "networkPolicy.enabled=true", "metrics.service=true", "moduleParameters.nvidia.NVreg_X=1",
			"prePull.images={registry.example.com/driver:580.178.04-debian12}")...)...)
	second := set(t, p)
	images(t, p, "registry.example.com/driver:550.163.01-debian12")
	pulling := p.Kubectl("get", "pods", "-n", "gpu", "-l", "app.kubernetes.io/component=nvidia-driver-prepull", "-o", "jsonpath={.items[*].status.phase}")
	assert.Equalf(t, "Running Running Running", pulling, "beside the driver pods, those that pull the next image")
	assert.Equalf(t, first.UID, second.UID, "the upgrade has made another DaemonSet: for a time there were two")
	assert.Samef(t, first.Spec.Selector, second.Spec.Selector, "the selector has changed, which Kubernetes refuses for a DaemonSet that is there (-before +after)")
	if got := inventory(t, p); !slices.ContainsFunc(got, func(o string) bool { return strings.HasPrefix(o, "ClusterRole//gpu-nvidia-driver") }) {
		t.Errorf("the new rights are not there: %q", got)
	}

	p.Helm(append([]string{"upgrade", "gpu", chart, "-n", "gpu", "--wait", "--timeout=5m"}, minimal("pools[0].name=first", `pools[0].nodeSelector.kubernetes\.io/hostname=a`,
		"pools[1].name=second", "pools[1].nodeSelector.site=x")...)...)
	images(t, p, "registry.example.com/driver:535.261.03-debian12")
	assert.Equalf(t, "a", p.Kubectl("get", "pods", "-n", "gpu", "-l", "driver-container/pool=first", "-o", "jsonpath={.items[*].spec.nodeName}"), "the nodes of the first pool's pods")

	p.Helm("rollback", "gpu", "1", "-n", "gpu", "--wait", "--timeout=5m")
	assert.Samef(t, first.Spec, set(t, p).Spec, "rolled back, the DaemonSet is not as it was (-first +now)")
	images(t, p, "registry.example.com/driver:535.261.03-debian12")

	p.Helm("uninstall", "gpu", "-n", "gpu", "--wait", "--timeout=5m")
	p.Wait(settle, "everything of the release is gone", func() error {
		if diff := cmp.Diff(before, inventory(t, p)); diff != "" {
			return fmt.Errorf("objects (-before +now):\n%s", diff)
		}
		return nil
	})
}

// images fails unless each of the three nodes runs one driver pod with this image.
func images(t *testing.T, p *control.Plane, want string) {
	t.Helper()
	p.Wait(settle, "three nodes with "+want, func() error {
		on := map[string]string{}
		for _, pod := range get[core.PodList](t, p, "pods", "-A", "-l", selector).Items {
			if pod.Status.Phase != core.PodRunning || pod.Spec.Containers[0].Image != want || on[pod.Spec.NodeName] != "" {
				return fmt.Errorf("pod %s on node %q is %s with %s", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Spec.Containers[0].Image)
			}
			on[pod.Spec.NodeName] = pod.Name
		}
		if len(on) != 3 {
			return fmt.Errorf("driver pods are on %d nodes", len(on))
		}
		return nil
	})
}

// TestOnePodPerNode installs a second release, in another namespace and with another name, on the nodes of
// the first: its pods wait until those of the first have ended.
func TestOnePodPerNode(t *testing.T) {
	p := control.Start(t, control.Config{Controllers: true, Scheduler: true, KWOK: true})
	nodes(t, p, "a", "b")
	node(t, p, "without-gpu", nil)
	namespace(t, p, "first")
	namespace(t, p, "second")
	p.Helm(append([]string{"install", "gpu", chart, "-n", "first", "--wait", "--timeout=5m"}, minimal()...)...)
	p.Helm(append([]string{"install", "renamed", chart, "-n", "second"}, minimal("image.tag=550.163.01-debian12")...)...)
	p.Wait(settle, "the second release's pods wait", func() error {
		return phases(t, p, "second", core.PodPending, "didn't satisfy existing pods anti-affinity rules", "didn't match pod anti-affinity rules")
	})
	assert.NoErrorf(t, phases(t, p, "first", core.PodRunning), "the first release's pods")
	p.Helm("uninstall", "gpu", "-n", "first")
	p.Wait(settle, "the second release's pods run", func() error { return phases(t, p, "second", core.PodRunning) })
	assert.Equalf(t, "", p.Kubectl("get", "pods", "-A", "-o", "name", "--field-selector", "spec.nodeName=without-gpu"), "on a node without a GPU")
}

// phases returns nil when a namespace has one driver pod for each of two nodes, all in this phase; with
// reasons, one pod must have one of them.
func phases(t *testing.T, p *control.Plane, namespace string, phase core.PodPhase, reasons ...string) error {
	t.Helper()
	pods := get[core.PodList](t, p, "pods", "-n", namespace, "-l", selector).Items
	if len(pods) != 2 {
		return fmt.Errorf("there are %d pods, not 2", len(pods))
	}
	var errs []error
	for _, pod := range pods {
		said := slices.ContainsFunc(pod.Status.Conditions, func(c core.PodCondition) bool {
			return slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(c.Message, r) })
		})
		if pod.Status.Phase != phase || len(reasons) > 0 && !said {
			errs = append(errs, fmt.Errorf("pod %s is %s: %v", pod.Name, pod.Status.Phase, pod.Status.Conditions))
		}
	}
	return errors.Join(errs...)
}
