package control_test

import (
	"fmt"
	"strings"
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
	for name, test := range map[string]func(*testing.T, *stage){"claims": testClaims, "budget": testBudget} {
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
	e.Wait(limit, "the end", func() error { _, err := e.event("GPUEvictionDone"); return err })
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
	e.Wait(limit, "an Event that names the budget", func() error {
		ev, err := e.event("GPUEvictionBlocked")
		if err == nil && (!strings.Contains(ev.Message, "pod team/train-budget-") || !strings.Contains(ev.Message, "The disruption budget train-budget-pdb needs")) {
			err = fmt.Errorf("it says %s", ev.Message)
		}
		return err
	})
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
	e.Wait(limit, "the end", func() error { _, err := e.event("GPUEvictionDone"); return err })
	e.pristine(1)
}
