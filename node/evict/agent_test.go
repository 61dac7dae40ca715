package evict

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// crowd returns pods of every kind.
func crowd() []*corev1.Pod {
	return []*corev1.Pod{
		pod("train", "ReplicaSet", gpu("nvidia.com/gpu")),
		pod("slice", "Job", gpu("nvidia.com/mig-1g.5gb")),
		pod("plugin", "DaemonSet", selector(deployPrefix+"device-plugin", "true")),
		pod("clients", "DaemonSet", selector(deployPrefix+"client", "batch"), gpu("nvidia.com/gpu")),
		pod("exporter", "DaemonSet", selector(deployPrefix+"dcgm-exporter", "false")), // as if its node selector were ignored
		pod("cni", "DaemonSet"),
		pod("web", "ReplicaSet"),
		pod("done", "Job", gpu("nvidia.com/gpu"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
	}
}

const survivors = "exporter cni web done driver-abc"

func TestUpgrade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, crowd()...)
		stop := b.start()
		time.Sleep(10 * time.Second)
		if n := b.see().calls; n > 2 { // one call at the start: whether there is a record
			t.Errorf("%d calls of the API before anybody asked", n)
		}
		b.d.begin(t.Context())
		time.Sleep(6 * time.Second)
		want := map[string]string{"kubernetes.io/hostname": nodeName, "feature.node.kubernetes.io/pci-10de.x": "true", deployPrefix + "driver": "true",
			deployPrefix + "device-plugin": pausedSuffix, deployPrefix + "client": "batch_" + pausedSuffix, deployPrefix + "dcgm-exporter": "false", deployPrefix + "node-status-exporter": "true"}
		if v := b.see(); !v.cordoned || v.annotations[Annotation] == "" || !maps.Equal(v.labels, want) {
			t.Errorf("in the middle: %+v", v)
		}
		time.Sleep(40 * time.Second)
		b.pristine(false)
		assert.Equalf(t, survivors, b.names(), "left")
		assert.Equalf(t, 3, b.see().patches, "patches of the node, not take, release and put back")
		assert.Equalf(t, "Started Done", b.reasons(), "Events")
		calls := b.see().calls
		t.Logf("%d calls of the API for an upgrade", calls)
		time.Sleep(time.Hour)
		assert.Equalf(t, 0, (b.see().calls - calls), "calls of the API while the driver serves")
		assert.NoError(t, stop())
	})
}

func TestCordonedBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, crowd()...)
		b.node["spec"].(map[string]any)["unschedulable"] = true
		defer b.start()()
		b.d.upgrade(t.Context())
		time.Sleep(10 * time.Second)
		b.pristine(true)
	})
}

// TestUnrelatedStates: the agent acts only when its own pod's driver waits for another driver.
func TestUnrelatedStates(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*driver){
		"another pod's driver": func(d *driver) { d.name = "driver-old"; d.ask() },
		"another asks": func(d *driver) {
			d.state(status.Waiting, "replace")
			d.c.locked(func() { d.c.annotate(status.SafeLoadAnnotation, "driver-old") })
		},
		"nobody asks":        func(d *driver) { d.state(status.Waiting, "replace") },
		"waits for the lock": func(d *driver) { d.state(status.Waiting, "lock"); d.annotate() },
		"serves":             func(d *driver) { d.state(status.Serving, ""); d.annotate() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, crowd()...)
				stop := b.start()
				set(b.d)
				time.Sleep(5 * time.Minute)
				if err := stop(); err != nil || b.see().patches > 0 || b.reasons() != "" {
					t.Errorf("%v, %d patches, told %s", err, b.see().patches, b.reasons())
				}
			})
		})
	}
}

// TestBudgetFromTheStart: nothing is changed while a budget prevents an eviction, and the budget is named.
func TestBudgetFromTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, crowd()...)
		free := time.Now().Add(10 * time.Minute)
		b.budget = func(pod string) *metav1.Status {
			if pod == "team/train" && time.Now().Before(free) {
				return budgetSays("train-pdb")
			}
			return nil
		}
		defer b.start()()
		b.d.begin(t.Context())
		time.Sleep(9 * time.Minute)
		if b.see().patches > 0 || b.names() != "train slice plugin clients "+survivors {
			t.Errorf("%d patches; left: %s", b.see().patches, b.names())
		}
		v := b.see()
		e := v.events[0]
		if len(v.events) != 2 || e.Reason != reasonBlocked || e.Type != "Warning" || e.Count < 5 || e.Count > 10 ||
			!strings.Contains(e.Message, "pod team/train: a PodDisruptionBudget does not allow it: The disruption budget train-pdb needs 1 healthy pods") {
			t.Errorf("%d Events, the first: %s %d times: %s", len(v.events), e.Reason, e.Count, e.Message)
		}
		time.Sleep(3 * time.Minute)
		b.pristine(false)
		assert.Equalf(t, survivors, b.names(), "left")
	})
}

// TestBudgetInBetween: the second of two pods is refused until the timeout. The changes are undone, and a
// later attempt succeeds.
func TestBudgetInBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, crowd()...)
		free := time.Now().Add(8 * time.Minute)
		b.budget = func(pod string) *metav1.Status {
			// Another pod of the same budget ended just now.
			if pod == "team/slice" && b.cordoned() && time.Now().Before(free) {
				return budgetSays("slice-pdb")
			}
			return nil
		}
		defer b.start()()
		b.d.begin(t.Context())
		time.Sleep(4 * time.Minute)
		if !b.see().cordoned {
			t.Error("given up too early")
		}
		time.Sleep(80 * time.Second)
		b.pristine(false)
		v := b.see()
		if v.annotations[status.SafeLoadAnnotation] == "" {
			t.Error("the driver was let go on")
		}
		if e := v.events[len(v.events)-1]; e.Reason != reasonFailed || !strings.Contains(e.Message, "slice-pdb") || !strings.Contains(e.Message, "not free after 5m0s") {
			t.Errorf("%s: %s", e.Reason, e.Message)
		}
		time.Sleep(5 * time.Minute)
		b.pristine(false)
		if got := b.names(); got != survivors || b.see().annotations[status.SafeLoadAnnotation] != "" {
			t.Errorf("left: %s", got)
		}
	})
}

func TestUnmanaged(t *testing.T) {
	t.Parallel()
	for name, force := range map[string]bool{"refused": false, "forced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, pod("notebook", "", gpu("nvidia.com/gpu")))
				b.cfg.Force = force
				defer b.start()()
				b.d.begin(t.Context())
				time.Sleep(time.Minute)
				if gone := b.names() == "driver-abc"; gone != force {
					t.Errorf("left: %s", b.names())
				}
				if !force && (b.see().patches > 0 || !strings.Contains(b.messages(), "pod team/notebook has no controller")) {
					t.Errorf("%d patches\n%s", b.see().patches, b.messages())
				}
			})
		})
	}
}

func TestDriverFails(t *testing.T) {
	t.Parallel()
	for _, fate := range []status.State{status.Failed, status.Restored, status.Degraded, status.Stopping} {
		t.Run(string(fate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, crowd()...)
				b.d.fate = fate
				defer b.start()()
				b.d.upgrade(t.Context())
				time.Sleep(6 * time.Minute)
				b.pristine(false)
				if got := b.reasons(); got != "Started Failed" {
					t.Errorf("Events: %s\n%s", got, b.messages())
				}
			})
		})
	}
}

// TestDriverKilled: the status of a driver that was killed says that it serves, and nobody corrects it.
func TestDriverKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, crowd()...)
		defer b.start()()
		assert.NoError(t, b.d.lock.Close())
		b.d.upgrade(t.Context())
		time.Sleep(6 * time.Minute)
		b.pristine(false)
		assert.Equalf(t, "Started Failed", b.reasons(), "Events")
		assert.Contains(t, b.messages(), "no driver container holds the node's lock")
	})
}

// TestStopped: SIGTERM at any second undoes all changes.
func TestStopped(t *testing.T) {
	t.Parallel()
	for second := range 20 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, crowd()...)
			stop := b.start()
			ctx, cancel := context.WithCancel(t.Context())
			b.d.begin(ctx)
			time.Sleep(time.Duration(second) * time.Second)
			err := stop()
			cancel()
			assert.NoErrorf(t, err, "after %d s", second)
			b.pristine(false)
		})
	}
}

// TestConcurrentChanges: others change the node at the same time, and no change is lost.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, crowd()...)
		turn := 0
		b.meddle = func() {
			if turn++; turn%2 == 0 {
				b.annotate("somebody/else", time.Now().String())
			}
		}
		defer b.start()()
		b.d.upgrade(t.Context())
		time.Sleep(10 * time.Second)
		b.pristine(false)
		if b.see().annotations["somebody/else"] == "" {
			t.Error("another's annotation was lost")
		}
	})
}

// TestManualChangesStay: what a person changes during an upgrade stays.
func TestManualChangesStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, crowd()...)
		b.takes = time.Minute
		stop := b.start()
		b.d.begin(t.Context())
		time.Sleep(20 * time.Second)
		b.locked(func() {
			delete(b.node["spec"].(map[string]any), "unschedulable")
			b.node["metadata"].(map[string]any)["labels"].(map[string]any)[deployPrefix+"device-plugin"] = "false"
			b.bump()
		})
		err, v := stop(), b.see()
		if err != nil || v.cordoned || v.labels[deployPrefix+"device-plugin"] != "false" || v.labels[deployPrefix+"client"] != "batch" {
			t.Errorf("%v, %+v", err, v)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, crowd()...)
		b.takes = time.Minute
		stop := b.start()
		ctx, cancel := context.WithCancel(t.Context())
		b.d.begin(ctx)
		time.Sleep(20 * time.Second)
		cancel()
		b.locked(func() { b.annotate(Annotation, "") })
		b.d.state(status.Failed, "")
		time.Sleep(20 * time.Second)
		err, v := stop(), b.see()
		if err != nil || !v.cordoned || v.labels[deployPrefix+"device-plugin"] != pausedSuffix {
			t.Errorf("with the record gone the node is a person's: %v, %+v", err, v)
		}
	})
}

// TestNoCluster: without an API server or without rights the agent keeps running, tries again and does not
// flood the log.
func TestNoCluster(t *testing.T) {
	t.Parallel()
	for name, st := range map[string]*metav1.Status{
		"server": refusal(503, metav1.StatusReasonServiceUnavailable, "etcd is gone"),
		"rights": refusal(403, metav1.StatusReasonForbidden, "nodes is forbidden"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, crowd()...)
				away := true
				b.fail = func(*http.Request) *metav1.Status {
					if away {
						return st
					}
					return nil
				}
				defer b.start()()
				b.d.begin(t.Context())
				time.Sleep(10 * time.Minute)
				if lines := strings.Count(b.messages(), "\n"); lines > 30 || b.see().patches > 0 {
					t.Errorf("%d lines:\n%s", lines, b.messages())
				}
				if name == "rights" && !strings.Contains(b.messages(), `grant the service account "get" on "nodes"`) {
					t.Errorf("log:\n%s", b.messages())
				}
				b.locked(func() { away = false })
				time.Sleep(time.Minute)
				b.pristine(false)
				assert.Equalf(t, survivors, b.names(), "left")
			})
		})
	}
}
