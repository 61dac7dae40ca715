package eviction

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/evict"
	"github.com/driver-container/driver-container/node/status"
)

// TestMain lets more tests run at a time than there are processors: most of the time they wait for the
// cluster that they share.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestEvict has what only a real API server shows: that it evicts, that it keeps budgets, and which rights are needed.
// node/evict has everything else, against a cluster that keeps the API's rules.
func TestEvict(t *testing.T) {
	begin := time.Now()
	s := newStage(t)
	t.Logf("the cluster with the chart stood after %s", time.Since(begin).Round(time.Second))
	for name, test := range map[string]func(*testing.T, *stage){
		"upgrade": testUpgrade, "budget": testBudget, "rights": testRights,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, s) })
	}
}

// testUpgrade is a whole upgrade: the pods that use the GPU leave, the others stay, and all come back.
func testUpgrade(t *testing.T, s *stage) {
	e := s.site(t, "upgrade", 2)
	pod := e.driverPod()
	a := e.start(pod)
	e.Wait(limit, "idle", func() error {
		if !strings.Contains(a.log.String(), "to ask for a free node") {
			return fmt.Errorf("it said %q", a.log.String())
		}
		return nil
	})
	time.Sleep(5 * time.Second)
	all, anon := a.memory()
	t.Logf("idle: %d MiB resident, %d of them its own", all, anon)
	if all > 48 {
		t.Errorf("it has %d MiB resident while nothing happens", all)
	}
	begin := time.Now()
	end := e.driver(pod)
	defer end()
	e.Wait(limit, "cordoned and paused", func() error {
		n := e.node()
		if !n.Spec.Unschedulable || n.Labels[deploy+"device-plugin"] != "paused-for-driver-upgrade" || n.Labels[deploy+"client"] != "batch_paused-for-driver-upgrade" || n.Labels[deploy+"driver"] != "true" {
			return fmt.Errorf("labels %v, cordoned %v", n.Labels, n.Spec.Unschedulable)
		}
		return nil
	})
	e.Wait(limit, "the end", func() error { _, err := e.event("GPUEvictionDone"); return err })
	t.Logf("from asking to put back: %s", time.Since(begin).Round(100*time.Millisecond))
	e.pristine(2)
	if _, err := e.event("GPUEvictionStarted"); err != nil {
		t.Error(err)
	}
	if got := e.Kubectl("describe", "pod", pod.Name, "-n", space); !strings.Contains(got, "GPUEvictionDone") {
		t.Errorf("kubectl describe pod does not show the Events:\n%s", got)
	}
	assert.Containsf(t, e.Kubectl("describe", "node", e.name), "GPUEvictionDone", "kubectl describe node does not show the Events")
	all, anon = a.memory()
	t.Logf("after an upgrade: %d MiB resident, %d of them its own", all, anon)
	a.stop()
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

// testRights: a service account with no rights at all. driver-evict reports the missing right, and does not
// end.
func testRights(t *testing.T, s *stage) {
	e := s.site(t, "rights", 1)
	e.account = "nothing"
	e.Kubectl("create", "serviceaccount", "nothing", "-n", space)
	_, err := e.KubectlInput(`{apiVersion: v1, kind: Pod, metadata: {name: nobody, namespace: `+space+`}, spec: {serviceAccountName: nothing, nodeName: rights, containers: [{name: c, image: none}]}}`, "apply", "-f", "-")
	require.NoError(t, err)
	nobody := require.Value(e.core.Pods(space).Get(t.Context(), "nobody", metav1.GetOptions{}))(t)
	for _, p := range must(e.pods()) {
		if len(p.Spec.InitContainers) > 0 {
			nobody.Spec.InitContainers = p.Spec.InitContainers
		}
	}
	a := e.start(nobody)
	e.status("nobody", status.Waiting, "replace")
	e.Wait(limit, "the right that is missing", func() error {
		if !strings.Contains(a.log.String(), "give the service account this permission") {
			return fmt.Errorf("it said %s", a.log.String())
		}
		return nil
	})
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	<-a.done
}
