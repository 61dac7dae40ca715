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

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
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

func TestEvict(t *testing.T) {
	begin := time.Now()
	s := newStage(t)
	t.Logf("the cluster with the chart stood after %s", time.Since(begin).Round(time.Second))
	for name, test := range map[string]func(*testing.T, *stage){
		"upgrade": testUpgrade, "budget": testBudget, "budgets-of-two": testOneByOne, "cordoned": testCordoned, "stopped": testStopped, "alone": testAlone, "rights": testRights,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, s) })
	}
	for _, at := range []string{"take", "evict", "release", "put back"} {
		for _, answered := range []bool{false, true} {
			for _, podGone := range []bool{false, true} {
				name := strings.ReplaceAll(fmt.Sprintf("killed-%s-answered-%v-gone-%v", at, answered, podGone), " ", "-")
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					testKilled(t, s, name, at, answered, podGone)
				})
			}
		}
	}
}

// testUpgrade is a whole upgrade: the pods that use the GPU leave, the others stay, and all come back.
func testUpgrade(t *testing.T, s *stage) {
	e := s.site(t, "upgrade", 2)
	pod := e.driverPod()
	a := e.start(pod, "", "")
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
	e.pristine(false, 2)
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
	e.start(pod, "", "")
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
	e.pristine(false, 1)
}

// testOneByOne: a budget lets one of two pods leave at a time. If the first can run on another node, the
// second leaves when the first runs there.
func testOneByOne(t *testing.T, s *stage) {
	e := s.site(t, "two", 2)
	other := s.site(t, "two-b", 0)
	e.budget("train-two", 1)
	pod := e.driverPod()
	a := e.start(pod, "", "")
	defer e.driver(pod)()
	e.Wait(limit, "the second is refused, the node put back", func() error {
		ev, err := e.event("GPUEvictionFailed")
		if err == nil && (!strings.Contains(ev.Message, "train-two-pdb") || !strings.Contains(ev.Message, "not free after 40s")) {
			err = fmt.Errorf("it says %s", ev.Message)
		}
		return err
	})
	e.Kubectl("label", "node", other.name, "site=two", "--overwrite")
	e.Wait(limit, "the end", func() error { _, err := e.event("GPUEvictionDone"); return err })
	a.stop()
	if n := e.node(); n.Spec.Unschedulable || n.Labels[deploy+"device-plugin"] != "true" {
		t.Errorf("left: %v, cordoned %v", n.Labels, n.Spec.Unschedulable)
	}
	if counts, err := other.counts(); err != nil || counts["train-two"] == 0 {
		t.Errorf("nothing moved to the other node: %v, %v", counts, err)
	}
}

// testCordoned: a node that somebody cordoned before stays cordoned; the person who cordoned it will uncordon
// it.
func testCordoned(t *testing.T, s *stage) {
	e := s.site(t, "cordoned", 1)
	e.Kubectl("cordon", e.name)
	pod := e.driverPod()
	e.start(pod, "", "")
	defer e.driver(pod)()
	e.Wait(limit, "the end", func() error { _, err := e.event("GPUEvictionDone"); return err })
	e.pristine(true, 0)
}

// testStopped: SIGTERM during an upgrade.
func testStopped(t *testing.T, s *stage) {
	e := s.site(t, "stopped", 0)
	e.deployment("stay", "stopped", 1, "example.org/stay")
	e.Wait(limit, "a pod that does not end", func() error {
		counts, err := e.counts()
		if err == nil && counts["stay"] != 1 {
			err = fmt.Errorf("running: %v", counts)
		}
		return err
	})
	pod := e.driverPod()
	a := e.start(pod, "", "")
	end := e.driver(pod)
	defer end()
	e.Wait(limit, "an eviction under way", func() error {
		if !strings.Contains(a.log.String(), "evicted pod=team/stay-") {
			return fmt.Errorf("it said %q", a.log.String())
		}
		return nil
	})
	end()
	a.stop()
	n := e.node()
	if n.Spec.Unschedulable || n.Annotations[evict.Annotation] != "" || n.Labels[deploy+"device-plugin"] != "true" || n.Labels[deploy+"client"] != "batch" {
		t.Errorf("after SIGTERM: %v, %v, cordoned %v", n.Labels, n.Annotations, n.Spec.Unschedulable)
	}
}

// testAlone: a pod that no controller would recreate stays, and the Event names it.
func testAlone(t *testing.T, s *stage) {
	e := s.site(t, "alone", 0)
	_, err := e.KubectlInput(`{apiVersion: v1, kind: Pod, metadata: {name: notebook, namespace: team}, spec: {nodeName: alone, containers: [{name: c, image: none, resources: {limits: {nvidia.com/gpu: 1}}}]}}`, "apply", "-f", "-")
	require.NoError(t, err)
	pod := e.driverPod()
	e.start(pod, "", "")
	defer e.driver(pod)()
	e.Wait(limit, "an Event that names the pod", func() error {
		ev, err := e.event("GPUEvictionBlocked")
		if err == nil && !strings.Contains(ev.Message, "pod team/notebook has no controller") {
			err = fmt.Errorf("it says %s", ev.Message)
		}
		return err
	})
	e.Kubectl("delete", "pod", "notebook", "-n", team)
	e.Wait(limit, "the end", func() error { _, err := e.event("GPUEvictionDone"); return err })
	e.pristine(false, 0)
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
	a := e.start(nobody, "", "")
	e.status("nobody", status.Waiting, "replace")
	e.Wait(limit, "the right that is missing", func() error {
		if !strings.Contains(a.log.String(), `grant the service account "get" on "nodes"`) {
			return fmt.Errorf("it said %s", a.log.String())
		}
		return nil
	})
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	<-a.done
}

// testKilled: SIGKILL during a request, before the server has received it or before driver-evict has the
// answer. Then either the container starts again; or the pod is deleted, and the next pod's container
// finishes the work.
func testKilled(t *testing.T, s *stage, name, at string, answered, podGone bool) {
	e := s.site(t, name, 1)
	pod := e.driverPod()
	kill := make(chan struct{}, 1)
	server := strings.TrimSpace(e.Kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"))
	w := newWire(t, server, e.ca, func(step string, after bool) bool {
		if step != at || after != answered {
			return false
		}
		kill <- struct{}{}
		return true
	})
	a := e.start(pod, w.URL, w.ca)
	end := e.driver(pod)
	defer end()
	select {
	case <-kill:
	case <-time.After(limit):
		t.Fatalf("it never came to %q\n%s", at, a.log.String())
	}
	a.kill()
	if podGone {
		end()
		e.Kubectl("delete", "pod", pod.Name, "-n", space, "--grace-period=0", "--force")
		pod = e.driverPod()
		e.status(pod.Name, status.Starting, "survey")
	}
	e.start(pod, "", "")
	if podGone {
		e.Wait(limit, "put back by the next pod", func() error {
			if n := e.node(); n.Spec.Unschedulable || n.Annotations[evict.Annotation] != "" {
				return fmt.Errorf("cordoned %v, %v", n.Spec.Unschedulable, n.Annotations)
			}
			return nil
		})
		end = e.driver(pod)
		defer end()
	}
	e.Wait(limit, "the driver serves", func() error {
		if e.node().Annotations[status.SafeLoadAnnotation] != "" {
			return fmt.Errorf("it still asks")
		}
		return nil
	})
	e.pristine(false, 1)
}
