package evict

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// killAt runs an upgrade and kills the program at one call of the API, before or after the call took effect:
// nothing that it does later has an effect. It returns false when the upgrade ended before.
func killAt(b *bench, call int, applied bool) bool {
	dead := false
	ctx, kill := context.WithCancel(b.t.Context())
	defer kill()
	calls := b.see().calls
	b.locked(func() {
		b.cut = func(n int, after bool) bool {
			if n == calls+call && after == applied {
				dead = true
				kill()
			}
			return dead
		}
	})
	end := make(chan error, 1)
	go func() { end <- b.agent().Run(ctx) }()
	for b.t.Context().Err() == nil {
		time.Sleep(time.Second)
		if ctx.Err() != nil || b.d.now() == status.Serving && b.see().annotations[Annotation] == "" {
			break
		}
	}
	kill()
	<-end
	b.locked(func() { b.cut = nil })
	return dead
}

// TestKilledAnywhere: SIGKILL at every call. The next container of the pod continues or undoes the changes;
// the driver comes up in the end.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	killedAnywhere(t, func(t *testing.T) *bench { return newBench(t, crowd()...) }, survivors)
	killedAnywhere(t, newDRABench, draSurvivors)
}

func killedAnywhere(t *testing.T, newBench func(*testing.T) *bench, survivors string) {
	t.Helper()
	points := 0
	for _, applied := range []bool{false, true} {
		for call := 1; ; call++ {
			going := false
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.d.begin(t.Context())
				time.Sleep(100 * time.Millisecond)
				if going = killAt(b, call, applied); !going {
					return
				}
				defer b.start()()
				time.Sleep(3 * time.Minute)
				b.pristine(false)
				if b.d.now() != status.Serving || b.names() != survivors {
					t.Errorf("killed at call %d (applied %v): driver %s, left %s\n%s", call, applied, b.d.now(), b.names(), b.log.String())
				}
			})
			if !going || t.Failed() {
				break
			}
			points++
		}
	}
	assert.Equalf(t, true, points >= 40, "killed at enough points: %d", points)
}

// TestKilledForGood: the pod is gone, too. The instance of the next pod undoes the changes: at once when no
// driver waits, and before its own upgrade when one does.
func TestKilledForGood(t *testing.T) {
	t.Parallel()
	for _, driverState := range []status.State{"", status.Starting, status.Serving, status.Waiting} {
		t.Run("driver "+string(driverState), func(t *testing.T) {
			play(t, crowd(), func(t *testing.T, b *bench) {
				ctx, cancel := context.WithCancel(t.Context())
				b.d.begin(ctx)
				time.Sleep(100 * time.Millisecond)
				if !killAt(b, 12, true) || b.see().annotations[Annotation] == "" {
					t.Fatalf("it was not killed in the middle:\n%s", b.log.String())
				}
				cancel()
				b.d.done.Wait()
				b.locked(func() { b.end(b.pods[len(b.pods)-1]) })
				b.cfg.Pod, b.cfg.UID, b.d.name = "driver-new", "uid-driver-new", "driver-new"
				switch driverState {
				case status.Waiting:
					time.Sleep(time.Second)
					b.d.begin(t.Context())
				default:
					b.d.state(driverState, "")
				}
				defer b.start()()
				time.Sleep(2 * time.Minute)
				b.pristine(false)
				assert.Containsf(t, b.log.String(), "put back what pod nvidia/driver-abc had left", "log")
				assert.Equalf(t, false, driverState == status.Waiting && b.d.now() != status.Serving, "the new pod's driver is %s", b.d.now())
			})
		})
	}
}

// leftBy makes the node as the program of a pod leaves it that is killed in the middle.
func (b *bench) leftBy(pod string) {
	r := record{Pod: "nvidia/" + pod, UID: "uid-" + pod, Cordoned: true, Labels: map[string]string{deployPrefix + "device-plugin": "true"}}
	b.locked(func() {
		b.node.Spec.Unschedulable = true
		b.node.Labels[deployPrefix+"device-plugin"] = pausedSuffix
		b.annotate(Annotation, r.String())
	})
}

// TestAnotherPodWorks: while the pod of a record exists, its own program undoes the changes.
func TestAnotherPodWorks(t *testing.T) {
	play(t, append(crowd(), pod("driver-old", "DaemonSet")), func(t *testing.T, b *bench) {
		b.leftBy("driver-old")
		defer b.start()()
		time.Sleep(10 * time.Minute)
		if b.see().patches > 0 || strings.Count(b.log.String(), "another pod works on this node pod=nvidia/driver-old ") != 1 {
			t.Errorf("%d patches while driver-old is there\n%s", b.see().patches, b.log.String())
		}
		b.locked(func() {
			for _, p := range b.pods {
				if p.Name == "driver-old" {
					b.end(p)
				}
			}
		})
		time.Sleep(2 * time.Minute)
		b.pristine(false)
	})
}

// TestRecordAppears: another pod's record that appears after the start of this program is undone, too, when that
// pod is gone and this one's driver asks.
func TestRecordAppears(t *testing.T) {
	play(t, crowd(), func(t *testing.T, b *bench) {
		defer b.start()()
		time.Sleep(time.Minute)
		b.leftBy("driver-old")
		b.d.begin(t.Context())
		time.Sleep(time.Minute)
		b.pristine(false)
		assert.Equal(t, status.Serving, b.d.now())
	})
}

// TestStartHangs: the program was killed when the driver went on, and the driver does not come up. The message of the
// next instance is about the driver, not about the node.
func TestStartHangs(t *testing.T) {
	play(t, crowd(), func(t *testing.T, b *bench) {
		b.leftBy("driver-abc")
		b.d.state(status.Starting, "load")
		defer b.start()()
		time.Sleep(6 * time.Minute)
		b.pristine(false)
		assert.Contains(t, b.log.String(), "is free of GPU pods, but driver 535.261.03 does not serve after 5m0s")
	})
}

// TestBrokenRecord: a record that cannot be parsed is left to a person, and no upgrade begins.
func TestBrokenRecord(t *testing.T) {
	play(t, crowd(), func(t *testing.T, b *bench) {
		b.annotate(Annotation, "{")
		stop := b.start()
		b.d.begin(t.Context())
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 0, b.see().patches)
		assert.Contains(t, b.log.String(), "uncordon the node and correct its labels")
		b.locked(func() { b.annotate(Annotation, "") })
		time.Sleep(3 * time.Minute)
		b.pristine(false)
		if err := stop(); err != nil || b.d.now() != status.Serving {
			t.Errorf("%v, driver %s", err, b.d.now())
		}
	})
}

// TestPutBackFails: the API server is gone when the driver serves. The changes are undone when it answers
// again; a stop before that is an error.
func TestPutBackFails(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"answers again": true, "stopped first": false} {
		t.Run(name, func(t *testing.T) {
			play(t, crowd(), func(t *testing.T, b *bench) {
				away := true
				b.State.OnRequest = func(st *apitest.State) {
					state := b.d.now()
					st.Down = away && (state == status.Starting || state == status.Serving)
				}
				stop := b.start()
				b.d.upgrade(t.Context())
				time.Sleep(5 * time.Minute)
				assert.Equalf(t, true, b.see().cordoned, "nothing can be put back")
				if !again {
					assert.ErrorContains(t, stop(), Annotation, "currently unable")
					return
				}
				b.locked(func() { away = false })
				time.Sleep(time.Minute)
				b.pristine(false)
				assert.NoError(t, stop())
			})
		})
	}
}
