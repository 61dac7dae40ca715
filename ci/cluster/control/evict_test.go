package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/evict"
)

// TestEvict has what only a real API server shows: that it evicts, that it keeps budgets, and which claims the
// real scheduler allocates, those from templates made by the real controller. Nodes, pods and devices are
// simulated. node/evict has everything else, against a cluster that keeps the API's rules.
func TestEvict(t *testing.T) {
	begin := time.Now()
	s := newStage(t)
	require.Value(s.KubectlInput(allocation, "apply", "-f", "-"))(t)
	t.Logf("the cluster with the chart stood after %s", time.Since(begin).Round(time.Second))
	for name, test := range map[string]func(*testing.T, *stage){"claims": testClaims, "budget": testBudget, "data": testData, "returns": testReturns} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, s) })
	}
}

// testClaims is a whole upgrade: the pods that use the GPU leave, by a request for it or by a claim, with the
// operands; the others stay, and all come back.
func testClaims(t *testing.T, s *stage) {
	e := s.claimSite(t, "claims")
	users := map[string]string{}
	for _, app := range []string{"shared-claims", "made-claims", "nic-claims", "plugin", "kubelet-plugin"} {
		users[app] = e.podOf(app)
	}
	pod := e.driverPod()
	e.start(pod)
	defer e.driver(pod)()
	e.Wait(limit, "cordoned and paused", func() error {
		n := e.node()
		if !n.Spec.Unschedulable || n.Labels[deploy+"device-plugin"] != "paused-for-driver-upgrade" || n.Labels[deploy+"client"] != "batch_paused-for-driver-upgrade" || n.Labels[deploy+"driver"] != "true" {
			return fmt.Errorf("labels %v, cordoned %v", n.Labels, n.Spec.Unschedulable)
		}
		return nil
	})
	e.waitEvent("GPUEvictionDone", "")
	e.pristine(1)
	e.running("shared-claims=2", "made-claims=1", "nic-claims=1", "kubelet-plugin=1", "plugin=1")
	for app, before := range users {
		assert.Equalf(t, app == "nic-claims", e.podOf(app) == before, "the pod of %s stayed", app)
	}
	for _, what := range [][]string{{"pod", pod.Name, "-n", space}, {"node", e.name}} {
		assert.Containsf(t, e.Kubectl(append([]string{"describe"}, what...)...), "GPUEvictionDone", "kubectl describe shows the Events")
	}
}

// testBudget: as long as a disruption budget refuses, driver-evict changes nothing, and the Event names the
// budget. When the budget allows it, the upgrade continues by itself.
func testBudget(t *testing.T, s *stage) {
	e := s.site(t, "budget", 1)
	e.budget("train-budget", 0)
	pod := e.driverPod()
	e.start(pod)
	version := e.node().Labels
	defer e.driver(pod)()
	e.waitEvent("GPUEvictionBlocked", "pod team/train-budget-")
	e.waitEvent("GPUEvictionBlocked", "The disruption budget train-budget-pdb needs")
	for range 10 {
		n := e.node()
		if n.Spec.Unschedulable || n.Annotations[evict.Annotation] != "" || fmt.Sprint(n.Labels) != fmt.Sprint(version) {
			t.Fatalf("something was changed: %v, cordoned %v", n.Labels, n.Spec.Unschedulable)
		}
		time.Sleep(time.Second)
	}
	if counts, err := e.counts(); err != nil || counts["train-budget"] != 1 {
		t.Fatalf("the budget was not respected: %v, %v", counts, err)
	}
	e.budget("train-budget", 1)
	e.waitEvent("GPUEvictionDone", "")
	e.pristine(1)
}

// testData: a pod with an emptyDir volume is named, and nothing changes, until it has none.
func testData(t *testing.T, s *stage) {
	e := s.site(t, "data", 1)
	const volume = `{"spec":{"template":{"spec":{"volumes":%s}}}}`
	e.Kubectl("patch", "deployment", "train-data", "-n", team, "-p", fmt.Sprintf(volume, `[{"name":"scratch","emptyDir":{}}]`))
	e.rolledOut("train-data")
	pod := e.driverPod()
	e.start(pod)
	defer e.driver(pod)()
	e.waitEvent("GPUEvictionBlocked", "has data in emptyDir volumes (scratch)")
	assert.Equal(t, false, e.node().Spec.Unschedulable)
	e.Kubectl("patch", "deployment", "train-data", "-n", team, "--type=json", "-p", `[{"op":"remove","path":"/spec/template/spec/volumes"}]`)
	e.waitEvent("GPUEvictionDone", "")
	e.pristine(1)
}

// testReturns: a pod that tolerates the cordon comes back by its controller and the scheduler. It is evicted a few
// times and then named; the node is not cordoned any more, and the upgrade goes on when the pod is gone.
func testReturns(t *testing.T, s *stage) {
	e := s.site(t, "returns", 1)
	e.Kubectl("patch", "deployment", "train-returns", "-n", team, "-p", `{"spec":{"template":{"spec":{"tolerations":[{"operator":"Exists"}]}}}}`)
	e.rolledOut("train-returns")
	pod := e.driverPod()
	e.start(pod)
	defer e.driver(pod)()
	e.waitEvent("GPUEvictionBlocked", "came back to the cordoned node each time: end its ReplicaSet train-returns-")
	e.rolledOut("train-returns")
	last := e.podOf("train-returns")
	for range 10 {
		assert.Equal(t, false, e.node().Spec.Unschedulable)
		time.Sleep(time.Second)
	}
	assert.Equalf(t, last, e.podOf("train-returns"), "it is not evicted any more")
	e.Kubectl("scale", "deployment", "train-returns", "-n", team, "--replicas=0")
	e.waitEvent("GPUEvictionDone", "")
	e.pristine(0)
}
