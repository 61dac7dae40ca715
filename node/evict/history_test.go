package evict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

func emptyDir(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		volume := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
		p.Spec.Volumes = append(p.Spec.Volumes, volume)
	}
}

func tolerates(toleration corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, toleration) }
}

// TestPodIgnoresSIGTERM: a pod that has not ended in time costs the node one cordon; the next attempt begins when
// it has ended.
func TestPodIgnoresSIGTERM(t *testing.T) {
	play(t, crowd(), func(t *testing.T, b *bench) {
		b.cfg.Timeout, b.cfg.RetryAfter = 10*time.Second, time.Second
		b.takes = 20 * time.Minute
		b.run(15 * time.Minute)
		assert.Equalf(t, 2, b.see().patches, "patches of the node, not one cordon and its end")
		assert.Equal(t, "Started Failed Blocked", b.reasons())
		assert.Contains(t, b.log.String(), "pod team/train was told to end by ")
		b.pristine(false)
		b.locked(func() { b.takes = time.Second })
		time.Sleep(6 * time.Minute)
		b.pristine(false)
		assert.Equal(t, survivors, b.names())
		assert.Equal(t, status.Serving, b.d.now())
	})
}

// TestPodComesBack: a pod that its controller starts again on the cordoned node is evicted a few times, whichever
// way it comes there. Then it is named, and the upgrade goes on when it is gone.
func TestPodComesBack(t *testing.T) {
	t.Parallel()
	anyGPU := gpu("nvidia.com/gpu")
	exists := tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists})
	cordon := tolerates(corev1.Toleration{Key: cordonTaint, Operator: corev1.TolerationOpEqual, Effect: corev1.TaintEffectNoSchedule})
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		most int // the most evictions in four hours
	}{
		"tolerates everything": {pod("train", "ReplicaSet", anyGPU, exists), 4},
		"tolerates the cordon": {pod("train", "StatefulSet", anyGPU, cordon), 4},
		"DaemonSet":            {pod("train", "DaemonSet", exists), 4},
		"by its nodeName":      {pod("train", "ReplicaSet", anyGPU), 4 * 12}, // it may go elsewhere, so a growing pause
	} {
		t.Run(name, func(t *testing.T) {
			play(t, []*corev1.Pod{tc.pod}, func(t *testing.T, b *bench) {
				evictions, gone := 0, false
				b.cfg.DaemonSets = true
				b.takes = time.Second
				b.again = func(p *corev1.Pod) *corev1.Pod {
					if gone || !strings.HasPrefix(p.Name, "train") {
						return nil
					}
					evictions++
					next := p.DeepCopy()
					next.DeletionTimestamp = nil
					next.Name = fmt.Sprintf("train-%d", evictions)
					next.UID = types.UID("uid-" + next.Name)
					return next
				}
				if name == "DaemonSet" {
					b.d.hold = func() (out []kmod.Holder) {
						for name := range strings.FieldsSeq(b.names()) {
							if strings.HasPrefix(name, "train") {
								out = append(out, kmod.Holder{PID: 7, Pod: "uid-" + name})
							}
						}
						return out
					}
				}
				counted := func() (n int) {
					b.locked(func() { n = evictions })
					return n
				}
				b.run(time.Minute)
				first := counted()
				assert.Equalf(t, true, first >= 2 && first <= 4, "evicted %d times in a minute", first)
				time.Sleep(4 * time.Hour)
				all := counted()
				assert.Equalf(t, true, all <= tc.most, "evicted %d times in four hours", all)
				assert.Contains(t, b.log.String(), "came back to the cordoned node each time: end its "+tc.pod.OwnerReferences[0].Kind+" owner")
				b.locked(func() {
					gone = true
					b.end(b.pods[len(b.pods)-1])
					b.end(b.pods[0])
					b.pods = append(b.pods, pod("driver-abc", "DaemonSet"))
				})
				time.Sleep(longestPause * 2)
				b.pristine(false)
				assert.Equal(t, status.Serving, b.d.now())
			})
		})
	}
}

// TestReplicasAreNoReturn: eight pods of one controller, and one more that the scheduler had bound to the node, are
// evicted in one attempt.
func TestReplicasAreNoReturn(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 8 {
		p := pod(fmt.Sprintf("train-%d", i), "ReplicaSet", gpu("nvidia.com/gpu"), tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists}))
		p.OwnerReferences[0].UID = "uid-of-all"
		pods = append(pods, p)
	}
	play(t, pods, func(t *testing.T, b *bench) {
		late := false
		b.again = func(p *corev1.Pod) *corev1.Pod {
			if late {
				return nil
			}
			late = true
			next := p.DeepCopy()
			next.DeletionTimestamp = nil
			next.Name, next.UID = "train-late", "uid-late"
			return next
		}
		b.run(2 * time.Minute)
		b.pristine(false)
		assert.Equal(t, "Started Done", b.reasons())
	})
}

// TestPauseGrows: attempts that fail one after the other are ever further apart, also if the driver was started
// again in between; success ends that.
func TestPauseGrows(t *testing.T) {
	play(t, nil, func(t *testing.T, b *bench) {
		b.d.fate = status.Failed
		defer b.start()()
		end := time.Now().Add(6 * time.Hour)
		for time.Now().Before(end) { // the kubelet starts the container again
			b.d.st.Change(func(st *status.Snapshot) { st.Instance += "+" })
			b.d.upgrade(t.Context())
			time.Sleep(10 * time.Second)
		}
		attempts := strings.Count(b.log.String(), "freeing node")
		assert.Equalf(t, true, attempts >= 12 && attempts <= 18, "%d attempts in 6 hours", attempts) // 1, 2, 4, 8, 16, 30, 30, ... min
		b.d.fate = status.Serving
		b.d.upgrade(t.Context())
		time.Sleep(time.Minute)
		b.pristine(false)
		assert.Contains(t, b.reasons(), "Done")
	})
}

func TestGrown(t *testing.T) {
	t.Parallel()
	for _, first := range []time.Duration{time.Second, time.Minute, 29 * time.Minute, time.Hour} {
		last := first
		for failures := range 100 {
			now := grown(first, failures, longestPause)
			assert.Equalf(t, true, now >= last && now <= max(first, longestPause), "%s after %d failures: %s", first, failures, now)
			last = now
		}
		assert.Equal(t, max(first, longestPause), last)
	}
}

// TestRetryAfter: the server's wish is kept, in the trial and later, as far as the deadline allows.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, cordoned := range []bool{false, true} {
		for _, seconds := range []int32{20, 3600} {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, crowd()...)
				b.cfg.RetryAfter = time.Second
				var asked []time.Time
				b.budget = func(string) error {
					if b.node.Spec.Unschedulable != cordoned {
						return nil
					}
					asked = append(asked, time.Now())
					busy := apitest.Refuse(429, "the server is busy")
					busy.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: seconds}
					return busy
				}
				b.run(20 * time.Minute)
				wanted := min(time.Duration(seconds)*time.Second, b.cfg.Timeout)
				var times []time.Time
				b.locked(func() { times = slices.Clone(asked) })
				assert.Equalf(t, true, len(times) > 1, "asked %d times", len(times))
				for i := range len(times) - 1 {
					pause := times[i+1].Sub(times[i])
					assert.Equalf(t, true, pause >= wanted && pause <= wanted*5/2+10*time.Second, "asked again after %s, not %s", pause, wanted)
				}
				b.locked(func() { b.budget = nil })
				time.Sleep(20 * time.Minute)
				b.pristine(false)
				assert.Equal(t, status.Serving, b.d.now())
			})
		}
	}
}

// TestBlockedForLong: a budget that never allows an eviction costs the API server little, and the upgrade goes on
// within seconds of its end. The list of nine pods has five pages here.
func TestBlockedForLong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		blocked, within time.Duration
		most            int // requests
	}{
		{15 * time.Second, 15 * time.Second, 20},
		{time.Hour, 40 * time.Second, 300},
	} {
		t.Run(tc.blocked.String(), func(t *testing.T) {
			var pods []*corev1.Pod
			for i := range 8 {
				pods = append(pods, pod(fmt.Sprintf("train-%d", i), "ReplicaSet", gpu("nvidia.com/gpu")))
			}
			play(t, pods, func(t *testing.T, b *bench) {
				b.budget = func(string) error { return budgetSays("never") }
				b.run(tc.blocked)
				calls := b.see().calls
				assert.Equalf(t, true, calls <= tc.most, "%d requests in %s", calls, tc.blocked)
				assert.Equal(t, "Blocked", b.reasons())
				b.locked(func() { b.budget = nil })
				time.Sleep(tc.within)
				assert.Equalf(t, true, b.see().patches > 0, "it goes on within %s", tc.within)
			})
		})
	}
}
