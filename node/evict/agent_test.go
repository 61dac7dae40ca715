package evict

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// TestUpgrade: what is changed and evicted, in how many calls, and that a node which was cordoned before stays so.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, cordoned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, crowd()...)
			b.node.Spec.Unschedulable = cordoned
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
			b.pristine(cordoned)
			assert.Equalf(t, survivors, b.names(), "left")
			assert.Equalf(t, 3, b.see().patches, "patches of the node, not take, release and put back")
			assert.Equalf(t, "Started Done", b.reasons(), "Events")
			calls := b.see().calls
			time.Sleep(time.Hour)
			assert.Equalf(t, calls, b.see().calls, "calls of the API while the driver serves")
			assert.NoError(t, stop())
		})
	}
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
			d.st.Change(func(st *status.Snapshot) { st.Schema, st.State = 99, status.Waiting })
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
				assert.Equalf(t, name == "is not understood", strings.Count(b.log.String(), "status file not read") == 1, "%s", b.log.String())
			})
		})
	}
}

// TestRefused: pods that this program does not evict, or only when that is allowed. Nothing is changed for an
// upgrade that could not go on, and the pod is named.
func TestRefused(t *testing.T) {
	t.Parallel()
	monitor, notebook := pod("monitor", "DaemonSet"), pod("notebook", "", gpu("nvidia.com/gpu"))
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		holds bool // has the driver open
		full  bool // its budget is used up
		cfg   func(*Config)
		want  string // why not; "": it is evicted
		told  string // that it was
	}{
		"no controller":          {pod: notebook, want: "pod team/notebook has no controller"},
		"no controller, allowed": {pod: notebook, cfg: func(c *Config) { c.Force = true }},
		"budget": {pod: pod("train", "Job", gpu("nvidia.com/gpu")), full: true,
			want: "pod team/train: a PodDisruptionBudget does not allow it: The disruption budget train-pdb needs 1 healthy pods"},
		"emptyDir": {pod: pod("train", "Job", gpu("nvidia.com/gpu"), emptyDir("scratch"), emptyDir("shm")),
			want: "pod team/train has data in emptyDir volumes (scratch, shm), which end with it: end it, or allow that with --delete-emptydir-data"},
		"emptyDir, allowed": {pod: pod("train", "Job", gpu("nvidia.com/gpu"), emptyDir("scratch")), cfg: func(c *Config) { c.DeleteEmptyDir = true },
			told: "pod team/train was evicted, and the data in its emptyDir volumes ended with it: scratch event=" + reasonData},
		"emptyDir, and no controller":    {pod: pod("notebook", "", gpu("nvidia.com/gpu"), emptyDir("home")), cfg: func(c *Config) { c.Force = true }, want: "emptyDir volumes (home)"},
		"emptyDir of an operand":         {pod: pod("plugin", "DaemonSet", selector(deployPrefix+"device-plugin", "true"), emptyDir("scratch"))},
		"emptyDir of a DaemonSet, evict": {pod: pod("monitor", "DaemonSet", emptyDir("scratch")), holds: true, cfg: func(c *Config) { c.DaemonSets = true }, want: "emptyDir volumes (scratch)"},
		"holder":                         {pod: pod("viewer", "ReplicaSet"), holds: true},
		"DaemonSet":                      {pod: monitor, holds: true, want: "pod team/monitor uses the driver and belongs to a DaemonSet: give the DaemonSet the node selector nvidia.com/gpu.deploy.client=true"},
		"DaemonSet, allowed":             {pod: monitor, holds: true, cfg: func(c *Config) { c.DaemonSets = true }},
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
				if tc.full {
					b.budget = func(string) error { return budgetSays("train-pdb") }
				}
				b.run(4 * time.Minute)
				if tc.want != "" {
					v := b.see()
					if e := v.events[0]; v.patches > 0 || e.Reason != reasonBlocked || e.Type != "Warning" || !strings.Contains(e.Message, tc.want) {
						t.Errorf("%d patches, %s %s: %s", v.patches, e.Type, e.Reason, e.Message)
					}
					b.locked(func() { b.pods = b.pods[1:] }) // a person ends it
					time.Sleep(time.Minute)
				}
				b.pristine(false)
				assert.Contains(t, b.log.String(), tc.told)
				assert.Equalf(t, tc.told != "", strings.Contains(b.reasons(), "EndedData"), "Events %s", b.reasons())
				assert.Equal(t, "driver-abc", b.names())
				assert.Equal(t, status.Serving, b.d.now())
			})
		})
	}
}

// TestRefusedInBetween: what nobody could know at the start, a budget that is used up and a DaemonSet's pod that opens the
// driver when it was already allowed to continue. The attempt ends in time and names the pod; a later one succeeds.
func TestRefusedInBetween(t *testing.T) {
	t.Parallel()
	for want, prepare := range map[string]func(b *bench) (end func()){
		"slice-pdb": func(b *bench) func() {
			b.budget = func(pod string) error {
				if pod == "team/slice" && b.node.Spec.Unschedulable {
					return budgetSays("slice-pdb")
				}
				return nil
			}
			return func() { b.budget = nil }
		},
		"not free after 5m0s: pod team/monitor uses the driver and belongs to a DaemonSet": func(b *bench) func() {
			b.pods = append([]*corev1.Pod{pod("monitor", "DaemonSet")}, b.pods...)
			b.holds("monitor")
			there := b.d.hold
			b.d.hold = func() []kmod.Holder {
				if b.see().annotations[status.SafeLoadAnnotation] != "" {
					return nil
				}
				return there()
			}
			return func() { b.end(b.pods[0]) }
		},
	} {
		t.Run(want, func(t *testing.T) {
			play(t, crowd(), func(t *testing.T, b *bench) {
				end := prepare(b)
				b.run(4 * time.Minute)
				assert.Equalf(t, true, b.see().cordoned, "not given up too early")
				time.Sleep(100 * time.Second)
				b.pristine(false)
				v := b.see()
				if e := v.events[len(v.events)-1]; e.Reason != reasonFailed || !strings.Contains(e.Message, want) {
					t.Errorf("%s: %s", e.Reason, e.Message)
				}
				b.locked(end)
				time.Sleep(5 * time.Minute)
				b.pristine(false)
				assert.Equalf(t, survivors, b.names(), "left")
				assert.Equal(t, status.Serving, b.d.now())
			})
		})
	}
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
				assert.Equalf(t, "Started Failed", b.reasons(), "Events\n%s", b.log.String())
				assert.Equal(t, fate == status.Serving, strings.Contains(b.log.String(), "no driver container holds the node's lock"))
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

// TestManualChangesStay: what a person changes during an upgrade stays. With the record gone the whole node is that
// person's.
func TestManualChangesStay(t *testing.T) {
	t.Parallel()
	for _, record := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, crowd()...)
			b.takes = time.Minute
			b.run(20 * time.Second)
			b.locked(func() {
				if record {
					b.node.Spec.Unschedulable, b.node.Labels[deployPrefix+"device-plugin"] = false, "false"
				} else {
					b.annotate(Annotation, "")
				}
			})
			time.Sleep(4 * time.Minute)
			plugin, client := pausedSuffix, "batch_"+pausedSuffix
			if record {
				plugin, client = "false", "batch"
			}
			if v := b.see(); v.cordoned == record || v.labels[deployPrefix+"device-plugin"] != plugin || v.labels[deployPrefix+"client"] != client {
				t.Errorf("record %v: %+v", record, v)
			}
		})
	}
}

// TestNoCluster: without an API server or without rights the agent keeps running, tries again and does not
// flood the log. Without the right to write Events everything else works.
func TestNoCluster(t *testing.T) {
	t.Parallel()
	for want, denied := range map[string]string{
		"currently unable to handle the request; it is tried again":                                                    "",
		`cannot get resource "nodes" in API group ""; give the service account this permission, or switch the feature`: "get nodes",
		"no Events: ": "create events",
	} {
		t.Run(want, func(t *testing.T) {
			play(t, crowd(), func(t *testing.T, b *bench) {
				b.State.Denied, b.State.Down = []string{denied}, denied == ""
				b.run(10 * time.Minute)
				only := denied == "create events"
				assert.Equalf(t, true, b.see().calls < 40 || only, "%d requests in ten minutes", b.see().calls)
				if lines := strings.Count(b.log.String(), "\n"); lines > 30 || (b.see().patches == 0) == only || only && strings.Count(b.log.String(), want) != 1 {
					t.Errorf("%d lines, %d patches:\n%s", lines, b.see().patches, b.log.String())
				}
				assert.Contains(t, b.log.String(), want)
				b.locked(func() { b.State.Denied, b.State.Down = nil, false })
				time.Sleep(time.Minute)
				b.pristine(false)
				assert.Equalf(t, survivors, b.names(), "left")
			})
		})
	}
}
