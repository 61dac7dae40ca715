package evict

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/node/status"
)

// TestClaims: pods with claims end first, then the operands, and the kubelet plugin when nothing needs it any
// more. A claim without a pod, an unallocated one and one of another driver's devices evict nothing.
func TestClaims(t *testing.T) {
	t.Parallel()
	for _, version := range claimVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newDRABench(t)
				b.dra.version = version
				b.run(2 * time.Minute)
				b.resumed()
				assert.Equalf(t, draSurvivors, b.names(), "left")
				assert.Equal(t, "Started Done", b.reasons())
				for _, name := range []string{"train", "share-a", "share-b", "channel", "extended"} {
					b.before("end "+name, "pause device-plugin")
					b.before("end "+name, "pause dra-validator")
				}
				b.before("end validator", "pause dra-driver")
				b.before("end device-plugin", "pause dra-driver")
				b.before("end domain-daemon", "pause dra-driver")
				b.before("end kubelet-plugin", "resume dra-driver")
				assert.Equalf(t, 5, b.see().patches, "patches of the node: cordon, operands, plugin, release, put back")
				t.Logf("%d calls of the API", b.see().calls)
			})
		})
	}
}

// TestClaimsNotRead: without --resource-claims nothing asks for claims, and the plugin stays. With an API server
// without resource.k8s.io, or with a version that is not read, everything else works, and the log says once what is
// missing. Without the right to read claims nothing is changed, and the right is named.
func TestClaimsNotRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(b *bench)
		said    string
		stays   bool // the pod that requests a GPU
	}{
		"not looked at": {prepare: func(b *bench) { b.cfg.ResourceClaims = false }},
		"no such API":   {prepare: func(b *bench) { b.dra.version = "" }, said: "the API server serves no ResourceClaims in resource.k8s.io/v1, v1beta2, v1beta1"},
		"no version":    {prepare: func(b *bench) { b.dra.version = "v1alpha3" }, said: "the API server serves no ResourceClaims in resource.k8s.io/v1, v1beta2, v1beta1"},
		"forbidden": {prepare: func(b *bench) { b.State.Denied = []string{"get resourceclaims"} }, stays: true,
			said: "look whether pod team/train uses a GPU: read resource claim team/train-made: "},
	} {
		t.Run(name, func(t *testing.T) {
			playDRA(t, func(t *testing.T, b *bench) {
				b.pods = append(b.pods, pod("plain", "Job", gpu("nvidia.com/gpu")))
				tc.prepare(b)
				b.run(59 * time.Second) // after a minute it says it again
				b.resumed()
				assert.Equalf(t, tc.stays, strings.Contains(b.names(), "plain"), "the pod that requests a GPU stays")
				assert.Equalf(t, tc.stays, b.see().patches == 0, "nothing is changed")
				assert.Equalf(t, false, slices.Contains(b.timeline(), "pause dra-driver"), "the plugin is paused")
				assert.Equalf(t, tc.said != "", strings.Count(b.log.String(), tc.said) == 1, "%s", b.log.String())
				assert.Equalf(t, !b.cfg.ResourceClaims || tc.stays, b.dra.asked == 0, "it asks for claims")
			})
		})
	}
}

// TestClaimDeleted: a claim that is deleted during the eviction does not make its pod a pod without a claim:
// the kubelet still needs the plugin to end it.
func TestClaimDeleted(t *testing.T) {
	playDRA(t, func(t *testing.T, b *bench) {
		b.takes = time.Minute
		b.run(10 * time.Second)
		b.locked(func() { clear(b.dra.claims) })
		time.Sleep(30 * time.Second)
		assert.Equalf(t, "true", b.see().labels[pluginLabel], "the plugin's label while pods with claims end")
		time.Sleep(4 * time.Minute)
		b.resumed()
		b.before("end train", "pause device-plugin")
		b.before("end validator", "pause dra-driver")
		assert.Equalf(t, draSurvivors, b.names(), "left")
	})
}

// TestClaimComesBack: a pod that tolerates the cordon comes back with a claim while the plugin ends. The
// plugin gets its label back, because the kubelet needs it to end that pod.
func TestClaimComesBack(t *testing.T) {
	playDRA(t, func(t *testing.T, b *bench) {
		defer b.start()()
		b.d.begin(t.Context())
		for b.see().labels[pluginLabel] == "true" {
			time.Sleep(100 * time.Millisecond)
		}
		b.locked(func() { b.pods = append(b.pods, pod("again", "ReplicaSet", named("shared"))) })
		time.Sleep(3 * time.Minute)
		b.resumed()
		assert.Equalf(t, draSurvivors, b.names(), "left")
		assert.Equal(t, status.Serving, b.d.now())
		timeline := b.timeline()
		back := slices.Index(timeline, "resume dra-driver")
		if end := slices.Index(timeline, "end again"); back < 0 || end < back || !slices.Contains(timeline[end:], "pause dra-driver") {
			t.Errorf("the plugin did not come back for the pod: %q", timeline)
		}
	})
}

// TestClaimAllocatedLater: what is not certain yet is asked again.
func TestClaimAllocatedLater(t *testing.T) {
	playDRA(t, func(t *testing.T, b *bench) {
		a := b.agent()
		late := []Pod{*ours(pod("late", "Job", named("late")))}
		if _, err := a.claimUsers(t.Context(), late); err != nil || a.claims.unserved {
			t.Errorf("a claim that does not exist yet is one of an API that is not served: %v", err)
		}
		for _, step := range []struct {
			driver string
			want   bool
		}{{"", false}, {nvidiaGPU, true}, {"net.example.com", true}} { // once allocated, it stays
			b.locked(func() { b.dra.claims["team/late"] = step.driver })
			users, err := a.claimUsers(t.Context(), late)
			assert.NoError(t, err)
			assert.Equalf(t, step.want, users["uid-late"], "allocated by %q", step.driver)
		}
		if _, err := a.claimUsers(t.Context(), nil); err != nil || len(a.claims.known) != 0 {
			t.Errorf("%v; it remembers pods that are gone: %v", err, a.claims.known)
		}
	})
}

// TestHolderDaemonSetAfterClaims: an allowed DaemonSet's pod may be the kubelet plugin without its label. It
// is evicted when no pod with a claim needs it any more.
func TestHolderDaemonSetAfterClaims(t *testing.T) {
	playDRA(t, func(t *testing.T, b *bench) {
		b.cfg.DaemonSets = true
		b.pods = append([]*corev1.Pod{pod("monitor", "DaemonSet")}, b.pods...)
		b.holds("monitor")
		b.run(3 * time.Minute)
		b.resumed()
		b.before("end train", "end monitor")
		b.before("end validator", "end monitor")
		assert.Equal(t, status.Serving, b.d.now())
	})
}
