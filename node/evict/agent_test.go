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
	"github.com/driver-container/driver-container/kmod"
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
	play(t, crowd(), func(t *testing.T, b *bench) {
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

// TestCordonedBefore: a node that was cordoned stays so. Others change it at the same time, and no change is lost.
func TestCordonedBefore(t *testing.T) {
	play(t, crowd(), func(t *testing.T, b *bench) {
		b.node.Spec.Unschedulable = true
		turn := 0
		b.meddle = func() {
			if turn++; turn%2 == 0 {
				b.annotate("somebody/else", time.Now().String())
			}
		}
		defer b.start()()
		b.d.upgrade(t.Context())
		time.Sleep(10 * time.Second)
		b.pristine(true)
		assert.Equalf(t, false, b.see().annotations["somebody/else"] == "", "another's annotation was lost")
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
		"is not understood": func(d *driver) {
			d.annotate()
			d.replaceStatus([]byte(`{"schema":99,"state":"waiting"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, crowd(), func(t *testing.T, b *bench) {
				stop := b.start()
				set(b.d)
				time.Sleep(5 * time.Minute)
				if err := stop(); err != nil || b.see().patches > 0 || b.reasons() != "" {
					t.Errorf("%v, %d patches, told %s", err, b.see().patches, b.reasons())
				}
				assert.Equalf(t, name == "is not understood", strings.Count(b.messages(), "status file not read") == 1, "%s", b.messages())
			})
		})
	}
}

// TestBudgetFromTheStart: nothing is changed while a budget prevents an eviction, and the budget is named.
func TestBudgetFromTheStart(t *testing.T) {
	play(t, crowd(), func(t *testing.T, b *bench) {
		free := time.Now().Add(10 * time.Minute)
		b.budget = func(pod string) *metav1.Status {
			if pod == "team/train" && time.Now().Before(free) {
				return budgetSays("train-pdb")
			}
			return nil
		}
		b.run(9 * time.Minute)
		assert.Equal(t, "train slice plugin clients "+survivors, b.names())
		v := b.see()
		e := v.events[0]
		if v.patches > 0 || len(v.events) != 2 || e.Reason != reasonBlocked || e.Type != "Warning" || e.Count < 5 || e.Count > 10 ||
			!strings.Contains(e.Message, "pod team/train: a PodDisruptionBudget does not allow it: The disruption budget train-pdb needs 1 healthy pods") {
			t.Errorf("%d patches, %d Events, the first: %s %d times: %s", v.patches, len(v.events), e.Reason, e.Count, e.Message)
		}
		time.Sleep(3 * time.Minute)
		b.pristine(false)
		assert.Equalf(t, survivors, b.names(), "left")
	})
}

// TestBudgetInBetween: the second of two pods is refused until the timeout. The changes are undone, and a
// later attempt succeeds.
func TestBudgetInBetween(t *testing.T) {
	play(t, crowd(), func(t *testing.T, b *bench) {
		free := time.Now().Add(8 * time.Minute)
		b.budget = func(pod string) *metav1.Status {
			// Another pod of the same budget ended just now.
			if pod == "team/slice" && b.node.Spec.Unschedulable && time.Now().Before(free) {
				return budgetSays("slice-pdb")
			}
			return nil
		}
		b.run(4 * time.Minute)
		assert.Equalf(t, true, b.see().cordoned, "not given up too early")
		time.Sleep(80 * time.Second)
		b.pristine(false)
		v := b.see()
		assert.Equalf(t, b.d.name, v.annotations[status.SafeLoadAnnotation], "the driver still asks")
		if e := v.events[len(v.events)-1]; e.Reason != reasonFailed || !strings.Contains(e.Message, "slice-pdb") || !strings.Contains(e.Message, "not free after 5m0s") {
			t.Errorf("%s: %s", e.Reason, e.Message)
		}
		time.Sleep(5 * time.Minute)
		b.pristine(false)
		assert.Equalf(t, survivors, b.names(), "left")
		assert.Equal(t, "", b.see().annotations[status.SafeLoadAnnotation])
	})
}

// TestRefused: pods that this program does not evict, or only when that is allowed. Nothing is changed for an
// upgrade that could not go on, and the pod is named.
func TestRefused(t *testing.T) {
	t.Parallel()
	monitor, notebook := pod("monitor", "DaemonSet"), pod("notebook", "", gpu("nvidia.com/gpu"))
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		holds bool // has the driver open
		cfg   func(*Config)
		want  string // why not; "": it is evicted
	}{
		"no controller":          {pod: notebook, want: "pod team/notebook has no controller"},
		"no controller, allowed": {pod: notebook, cfg: func(c *Config) { c.Force = true }},
		"holder":                 {pod: pod("viewer", "ReplicaSet"), holds: true},
		"DaemonSet":              {pod: monitor, holds: true, want: "pod team/monitor uses the driver and belongs to a DaemonSet: give the DaemonSet the node selector nvidia.com/gpu.deploy.client=true"},
		"DaemonSet, allowed":     {pod: monitor, holds: true, cfg: func(c *Config) { c.DaemonSets = true }},
		"static": {pod: pod("monitor", "Node"), holds: true, cfg: func(c *Config) { c.DaemonSets, c.Force = true, true },
			want: "pod team/monitor uses the driver and is a static pod, which no eviction ends: remove its manifest from the node"},
		"claim of a DaemonSet": {pod: pod("monitor", "DaemonSet", named("shared")), cfg: func(c *Config) { c.DaemonSets, c.ResourceClaims = true, true },
			want: "pod team/monitor has a resource claim and belongs to a DaemonSet, which would start it again with its devices: give the DaemonSet the node selector"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, []*corev1.Pod{tc.pod.DeepCopy()}, func(t *testing.T, b *bench) {
				b.dra = dra{version: "v1", claims: map[string]string{"team/shared": nvidiaGPU}}
				if tc.cfg != nil {
					tc.cfg(&b.cfg)
				}
				if tc.holds {
					b.holds(tc.pod.Name)
				}
				b.run(4 * time.Minute)
				if tc.want != "" {
					assert.Equal(t, 0, b.see().patches)
					assert.Contains(t, b.messages(), tc.want)
					b.locked(func() { b.pods = b.pods[1:] }) // a person ends it
					time.Sleep(time.Minute)
				}
				b.pristine(false)
				assert.Equal(t, "driver-abc", b.names())
				assert.Equal(t, status.Serving, b.d.now())
			})
		})
	}
}

// TestHolderAppears: a DaemonSet's pod that opens the driver when it was already allowed to continue. The
// attempt ends in time and names the pod; until the pod is gone nothing is tried again.
func TestHolderAppears(t *testing.T) {
	play(t, []*corev1.Pod{pod("monitor", "DaemonSet")}, func(t *testing.T, b *bench) {
		b.holds("monitor")
		there := b.d.hold
		b.d.hold = func() []kmod.Holder {
			if b.see().annotations[status.SafeLoadAnnotation] != "" {
				return nil
			}
			return there()
		}
		b.run(4 * time.Minute)
		assert.Equal(t, true, b.see().cordoned)
		time.Sleep(2 * time.Minute)
		b.pristine(false)
		assert.Contains(t, b.messages(), "not free after 5m0s: pod team/monitor uses the driver and belongs to a DaemonSet")
		patches := b.see().patches
		time.Sleep(3 * time.Minute)
		assert.Equal(t, patches, b.see().patches)
		assert.Contains(t, b.reasons(), "Blocked")
		b.locked(func() { b.end(b.pods[0]) })
		time.Sleep(time.Minute)
		b.pristine(false)
		assert.Equal(t, status.Serving, b.d.now())
	})
}

// TestDriverFails: the driver's start fails, or the driver is killed: its status then says that it serves, and
// nobody corrects it.
func TestDriverFails(t *testing.T) {
	t.Parallel()
	for _, fate := range []status.State{status.Failed, status.Restored, status.Degraded, status.Stopping, status.Serving} {
		t.Run(string(fate), func(t *testing.T) {
			play(t, crowd(), func(t *testing.T, b *bench) {
				b.d.fate = fate
				if fate == status.Serving {
					assert.NoError(t, b.d.lock.Close())
				}
				defer b.start()()
				b.d.upgrade(t.Context())
				time.Sleep(6 * time.Minute)
				b.pristine(false)
				assert.Equalf(t, "Started Failed", b.reasons(), "Events\n%s", b.messages())
				assert.Equal(t, fate == status.Serving, strings.Contains(b.messages(), "no driver container holds the node's lock"))
			})
		})
	}
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

// TestManualChangesStay: what a person changes during an upgrade stays.
func TestManualChangesStay(t *testing.T) {
	play(t, crowd(), func(t *testing.T, b *bench) {
		b.takes = time.Minute
		stop := b.start()
		b.d.begin(t.Context())
		time.Sleep(20 * time.Second)
		b.locked(func() {
			b.node.Spec.Unschedulable = false
			b.node.Labels[deployPrefix+"device-plugin"] = "false"
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
	for want, st := range map[string]*metav1.Status{
		"etcd is gone; it is tried again": refusal(503, "etcd is gone"),
		"nodes is forbidden; give the service account this permission, or switch the feature": refusal(403, "nodes is forbidden"),
	} {
		t.Run(want, func(t *testing.T) {
			play(t, crowd(), func(t *testing.T, b *bench) {
				away := true
				b.fail = func(*http.Request) *metav1.Status {
					if away {
						return st
					}
					return nil
				}
				b.run(10 * time.Minute)
				if lines := strings.Count(b.messages(), "\n"); lines > 30 || b.see().patches > 0 {
					t.Errorf("%d lines:\n%s", lines, b.messages())
				}
				assert.Contains(t, b.messages(), want)
				b.locked(func() { away = false })
				time.Sleep(time.Minute)
				b.pristine(false)
				assert.Equalf(t, survivors, b.names(), "left")
			})
		})
	}
}
