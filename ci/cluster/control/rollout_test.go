package control_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/kubernetes"
	"github.com/driver-container/driver-container/node/status"
)

const (
	oldDriver     = "535.261.03"
	refusedDriver = "595.99.02" // kwok.yaml makes no pod of this driver ready
	goodDriver    = "595.99.03"
	poolNode      = `{apiVersion: v1, kind: Node, metadata: {name: %[1]s-%[2]d, labels: {pool: %[1]s, kubernetes.io/hostname: %[1]s-%[2]d}}}`
)

// TestRollout: an upgrade of a canary's pool ends at the first node that goes back to its old driver. The real
// DaemonSet controller leaves the pool's other nodes and the other pool alone, and goes on with a driver that loads.
func TestRollout(t *testing.T) {
	p := control.Start(t, control.Config{Controllers: true, Scheduler: true, KWOK: true})
	nodes := make([]string, 0, 6)
	for i := range 4 {
		nodes = append(nodes, fmt.Sprintf(poolNode, "canary", i))
	}
	nodes = append(nodes, fmt.Sprintf(poolNode, "rest", 0), fmt.Sprintf(poolNode, "rest", 1))
	require.Value(p.KubectlInput(strings.Join(nodes, "\n---\n"), "create", "-f", "-"))(t)
	p.Helm("install", "gpu", "../../../deploy/chart", "-n", "gpu", "--create-namespace", "--set", "image.repository=registry.test/driver,driver="+oldDriver+
		",os=debian12,nfd.enabled=false,events=true,nodeCondition=true,pools[0].name=canary,pools[0].nodeSelector.pool=canary,pools[1].name=rest,pools[1].nodeSelector.pool=rest")
	before := settled(p, "all have "+oldDriver, func(d string) bool { return d == oldDriver }, 6)

	upgrade := func(driver string) {
		p.Helm("upgrade", "gpu", "../../../deploy/chart", "-n", "gpu", "--reuse-values", "--set", "poolOverrides.canary.driver="+driver)
	}
	upgrade(refusedDriver)
	first := settled(p, "one node has "+refusedDriver, func(d string) bool { return d == refusedDriver }, 1)
	failed := slices.Collect(maps.Values(first))[0]
	goesBack(t, p, failed)
	for range 10 {
		for node, pod := range podsByNode(p) {
			if node != failed.Spec.NodeName && (pod.UID != before[node].UID || pod.DeletionTimestamp != nil) {
				t.Fatalf("node %s was touched while %s had failed", node, failed.Spec.NodeName)
			}
		}
		time.Sleep(time.Second)
	}
	canary := require.Value(daemonSets(p))(t)[0].Status
	if canary.UpdatedNumberScheduled != 1 || canary.NumberUnavailable != 1 || canary.NumberReady != 3 {
		t.Errorf("the canary's DaemonSet: %+v", canary)
	}

	upgrade(goodDriver)
	settled(p, "the canary has "+goodDriver, func(d string) bool { return d == goodDriver }, 4)
	for node, pod := range podsByNode(p) {
		assert.Equalf(t, strings.HasPrefix(node, "rest-"), pod.UID == before[node].UID, "the pod of %s stayed", node)
	}
}

// goesBack is what kubelet and container do when the new modules are refused and the old ones serve again.
func goesBack(t *testing.T, p *control.Plane, pod *core.Pod) {
	t.Helper()
	clients, _ := p.Go()
	ended := core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: 13, Reason: "Error"}}
	pod.Status.Phase = core.PodRunning
	pod.Status.Conditions = append(pod.Status.Conditions, core.PodCondition{Type: core.PodReady, Status: core.ConditionFalse, Reason: "ContainersNotReady"})
	pod.Status.ContainerStatuses = []core.ContainerStatus{{Name: pod.Spec.Containers[0].Name, RestartCount: 1, LastTerminationState: ended,
		State: core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	require.Value(clients.CoreV1().Pods("gpu").UpdateStatus(t.Context(), pod, meta.UpdateOptions{}))(t)

	token := p.Kubectl("create", "token", pod.Spec.ServiceAccountName, "-n", "gpu", "--bound-object-kind=Pod", "--bound-object-name="+pod.Name)
	d, node := &driver{changed: make(chan struct{}, 1)}, pod.Spec.NodeName
	r := kubernetes.StartReporter(t.Context(), kubernetes.Source{Status: d.Status, Changed: d.changed}, kubernetes.ReportOptions{Events: true, Condition: true,
		Client: kubernetes.New(p.Account(token, "gpu")), Node: node, Pod: kubernetes.Pod("gpu", pod.Name, string(pod.UID)), Log: d.said.Logger()})
	d.set(status.Snapshot{State: status.Restored, Wanted: refusedDriver, Up: &status.Driver{Version: oldDriver}, Reason: refusedDriver + " was refused, " + oldDriver + " is back"})
	p.Wait(waitLimit, "the node says that it went back", func() error {
		if text := p.Kubectl("describe", "node", node); strings.Count(text, refusedDriver+" was refused") < 2 || !strings.Contains(text, "Restored") {
			return errors.New(text)
		}
		return nil
	})
	closing, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	r.Close(closing)
	assert.Equalf(t, "", d.said.String(), "warnings")
}

// settled waits until the DaemonSet controller has seen the last change and want nodes have a pod of such a driver.
// It returns those pods. Pods of drivers other than the refused one have to be ready.
func settled(p *control.Plane, what string, driver func(string) bool, want int) map[string]*core.Pod {
	p.T.Helper()
	var found map[string]*core.Pod
	p.Wait(limit, what, func() error {
		sets, err := daemonSets(p)
		if err != nil {
			return err
		}
		for _, s := range sets {
			if s.Status.ObservedGeneration != s.Generation {
				return fmt.Errorf("%s has not been seen", s.Name)
			}
		}
		found = podsByNode(p)
		maps.DeleteFunc(found, func(_ string, pod *core.Pod) bool {
			_, tag, _ := strings.Cut(pod.Spec.Containers[0].Image, ":")
			version := strings.TrimSuffix(tag, "-debian12")
			ready := slices.ContainsFunc(pod.Status.Conditions, func(c core.PodCondition) bool { return c.Type == core.PodReady && c.Status == core.ConditionTrue })
			return pod.DeletionTimestamp != nil || !driver(version) || !ready && version != refusedDriver
		})
		if len(found) != want {
			return fmt.Errorf("%d of %d nodes", len(found), want)
		}
		return nil
	})
	return found
}

func daemonSets(p *control.Plane) ([]apps.DaemonSet, error) {
	clients, _ := p.Go()
	list, err := clients.AppsV1().DaemonSets("gpu").List(context.Background(), meta.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// podsByNode returns the driver's pods by the names of their nodes.
func podsByNode(p *control.Plane) map[string]*core.Pod {
	p.T.Helper()
	clients, _ := p.Go()
	list := require.Value(clients.CoreV1().Pods("gpu").List(context.Background(), meta.ListOptions{FieldSelector: "spec.nodeName!="}))(p.T)
	found := map[string]*core.Pod{}
	for i := range list.Items {
		found[list.Items[i].Spec.NodeName] = &list.Items[i]
	}
	return found
}
