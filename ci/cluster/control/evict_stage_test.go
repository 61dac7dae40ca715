package control_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/node/evict"
	"github.com/driver-container/driver-container/node/lock"
	"github.com/driver-container/driver-container/node/status"
)

const (
	space  = "gpu-driver" // the chart's release
	team   = "team"       // namespace of the pods that use GPUs
	deploy = "nvidia.com/gpu.deploy."
	limit  = 90 * time.Second // for steps that take seconds on an idle machine
)

// stage is a cluster with the chart installed.
type stage struct {
	*control.Plane
	core    corev1client.CoreV1Interface
	binary  string
	account string
}

// daemons are a device plugin that follows its deploy label, and a DaemonSet without any relation to GPUs.
const daemons = `
{kind: List, apiVersion: v1, items: [
  {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: plugin, namespace: team}, spec: {selector: {matchLabels: {app: plugin}}, template: {
    metadata: {labels: {app: plugin}}, spec: {nodeSelector: {nvidia.com/gpu.deploy.device-plugin: "true"}, tolerations: [{operator: Exists}], containers: [{name: c, image: none}]}}}},
  {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: cni, namespace: team}, spec: {selector: {matchLabels: {app: cni}}, template: {
    metadata: {labels: {app: cni}}, spec: {tolerations: [{operator: Exists}], containers: [{name: c, image: none}]}}}}]}`

// newStage makes the cluster.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Plane: control.Start(t, control.Config{Controllers: true, Scheduler: true, KWOK: true}), binary: filepath.Join(t.TempDir(), "driver-entrypoint")}
	require.NoError(t, tool.Build(t.Context(), s.binary, "cmd/driver-entrypoint"))
	clients, _ := s.Go()
	s.core = clients.CoreV1()
	install := []string{"install", "gpu", "../../../deploy/chart", "--namespace", space, "--create-namespace", "--set", "image.repository=registry.test/driver", "--set", "image.tag=535.261.03-debian12",
		"--set", "evictGPUPods=true", "--set", "evict.timeout=40s", "--set", "evict.retryAfter=5s", "--set", "evict.resourceClaims=true", "--set", "nfd.enabled=false", "--set", "rbac.ownNodeOnly=true"}
	s.Helm(install...)
	s.Wait(limit, "the expressions of the policy have the right types", func() error {
		got := s.Kubectl("get", "validatingadmissionpolicy", "-o", "jsonpath={.items[*].status}")
		if !strings.Contains(got, "typeChecking") || strings.Contains(got, "expressionWarnings") {
			return errors.New(got)
		}
		return nil
	})
	s.Kubectl("create", "namespace", team)
	require.Value(s.KubectlInput(daemons, "apply", "-f", "-"))(t)
	s.account = strings.TrimSpace(s.Kubectl("get", "daemonset", "-n", space, "-o", "jsonpath={.items[0].spec.template.spec.serviceAccountName}"))
	return s
}

// site is one node with a GPU and the pods on it.
type site struct {
	*stage
	t    *testing.T
	name string
	run  string // its /run/nvidia
}

// labelsBefore are the labels of every site.
func labelsBefore(name string) map[string]string {
	return map[string]string{"site": name, "kubernetes.io/hostname": name, deploy + "driver": "true", deploy + "device-plugin": "true", deploy + "dra-driver": "true",
		deploy + "client": "batch", deploy + "dcgm": "false"}
}

// site adds a node, and on it a deployment of the given number of pods that use its GPUs.
func (s *stage) site(t *testing.T, name string, users int) *site {
	t.Helper()
	e := &site{stage: &stage{Plane: s.With(t), core: s.core, binary: s.binary, account: s.account}, t: t, name: name, run: t.TempDir()}
	held := require.Value(os.Create(lock.Path(e.run)))(t) // as a driver that is up holds it
	require.NoError(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	t.Cleanup(func() { _ = held.Close() })
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsBefore(name)}}
	n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	n.Status.Allocatable = n.Status.Capacity
	require.Value(s.core.Nodes().Create(t.Context(), n, metav1.CreateOptions{}))(t)
	e.deployment("train-"+name, name, users)
	e.running(fmt.Sprintf("train-%s=%d", name, users), "plugin=1", "cni=1", "driver=1")
	return e
}

// deployment makes pods with a GPU each on the nodes of a site.
func (e *site) deployment(name, site string, replicas int) {
	e.t.Helper()
	_, err := e.KubectlInput(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: team}, spec: {replicas: %[3]d, selector: {matchLabels: {app: %[1]s}},
		template: {metadata: {labels: {app: %[1]s}}, spec: {nodeSelector: {site: %[2]q}, containers: [{name: c, image: none, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}`, name, site, replicas), "apply", "-f", "-")
	require.NoError(e.t, err)
}

// rolledOut waits until the pod of a deployment has its present template.
func (e *site) rolledOut(name string) {
	e.t.Helper()
	e.Kubectl("rollout", "status", "deployment", name, "-n", team, "--timeout="+limit.String())
	e.running(name + "=1")
}

// budget lets the given number of a deployment's pods be unavailable; it waits until the controller has
// counted.
func (e *site) budget(name string, away int) {
	e.t.Helper()
	_, err := e.KubectlInput(fmt.Sprintf(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: %[1]s-pdb, namespace: team}, spec: {maxUnavailable: %[2]d, selector: {matchLabels: {app: %[1]s}}}}`, name, away), "apply", "-f", "-")
	require.NoError(e.t, err)
	e.Wait(limit, "the budget of "+name, func() error {
		got := e.Kubectl("get", "pdb", name+"-pdb", "-n", team, "-o", "jsonpath={.status.observedGeneration}={.metadata.generation} {.status.disruptionsAllowed}")
		if parts := strings.Fields(got); len(parts) != 2 || parts[1] != fmt.Sprint(away) {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
}

// pods returns the running pods of the node.
func (e *site) pods() ([]corev1.Pod, error) {
	list, err := e.core.Pods("").List(context.Background(), metav1.ListOptions{FieldSelector: "status.phase=Running,spec.nodeName=" + e.name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// counts returns the number of pods by app; the chart's are "driver".
func (e *site) counts() (map[string]int, error) {
	pods, err := e.pods()
	counts := map[string]int{}
	for _, p := range pods {
		if p.Namespace == space {
			counts["driver"]++
		} else if p.DeletionTimestamp == nil {
			counts[p.Labels["app"]]++
		}
	}
	return counts, err
}

// driverPod returns the chart's pod on this node that is not being deleted.
func (e *site) driverPod() *corev1.Pod {
	e.t.Helper()
	var found *corev1.Pod
	e.Wait(limit, "the driver's pod on "+e.name, func() error {
		pods, err := e.pods()
		for i := range pods {
			if pods[i].Namespace == space && pods[i].DeletionTimestamp == nil {
				found = &pods[i]
				return nil
			}
		}
		return errors.Join(err, errors.New("there is none"))
	})
	return found
}

func (e *site) node() *corev1.Node {
	e.t.Helper()
	n := require.Value(e.core.Nodes().Get(context.Background(), e.name, metav1.GetOptions{}))(e.t)
	return n
}

// pristine waits until the node is in its first state, with its pods back.
func (e *site) pristine(users int) {
	e.t.Helper()
	e.Wait(limit, e.name+" as it was before", func() error {
		n := e.node()
		counts, err := e.counts()
		labels := maps.Clone(n.Labels)
		maps.DeleteFunc(labels, func(key, _ string) bool {
			_, ok := labelsBefore(e.name)[key]
			return !ok && !strings.HasPrefix(key, deploy)
		})
		switch {
		case err != nil:
			return err
		case n.Annotations[evict.Annotation] != "" || n.Annotations[status.SafeLoadAnnotation] != "":
			return fmt.Errorf("annotations %v", n.Annotations)
		case n.Spec.Unschedulable:
			return errors.New("it is cordoned")
		case !maps.Equal(labels, labelsBefore(e.name)):
			return fmt.Errorf("labels %v", labels)
		case counts["train-"+e.name] != users || counts["plugin"] != 1 || counts["cni"] != 1 || counts["driver"] != 1:
			return fmt.Errorf("running: %v", counts)
		}
		return nil
	})
}

// annotate sets the safe-load annotation, as the driver does.
func (e *site) annotate(value string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, status.SafeLoadAnnotation, value)
	_, err := e.core.Nodes().Patch(context.Background(), e.name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	return err
}

// told says whether there is an Event about the node with this reason, and with this text in its message.
func (e *site) told(reason, text string) error {
	var others []string
	for _, in := range []string{"default", space} {
		list, err := e.core.Events(in).List(context.Background(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		for i := range list.Items {
			event := &list.Items[i]
			if event.InvolvedObject.Name != e.name {
				continue
			}
			if strings.Contains(event.Message, text) {
				return nil
			}
			others = append(others, event.Message)
		}
	}
	return fmt.Errorf("node %s has no Event %s with %q, but %q", e.name, reason, text, others)
}

// waitEvent waits for such an Event.
func (e *site) waitEvent(reason, text string) {
	e.t.Helper()
	e.Wait(limit, "the Event "+reason, func() error { return e.told(reason, text) })
}
