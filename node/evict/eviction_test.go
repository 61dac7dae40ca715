package evict

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestEvictionAnswers(t *testing.T) {
	t.Parallel()
	terminating := refusal(403, metav1.StatusReasonForbidden, "namespace is being terminated")
	terminating.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}
	busy := refusal(429, metav1.StatusReasonTooManyRequests, "the server is busy")
	busy.Details = &metav1.StatusDetails{RetryAfterSeconds: 3600}
	for name, tc := range map[string]struct {
		answer *metav1.Status
		trial  bool
		want   string // of the refusal; "": none
	}{
		"yes":                  {},
		"yes, trial":           {trial: true},
		"gone":                 {answer: refusal(404, metav1.StatusReasonNotFound, "no such pod")},
		"namesake":             {answer: refusal(409, metav1.StatusReasonConflict, "the UID does not match")},
		"namespace ends":       {answer: terminating},
		"budget":               {answer: budgetSays("b"), want: "a PodDisruptionBudget does not allow it: The disruption budget b needs 1 healthy pods and has 1 currently"},
		"two budgets":          {answer: refusal(500, metav1.StatusReasonInternalError, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."), want: "leave one budget"},
		"busy":                 {answer: busy, want: "the server is busy"},
		"no rights":            {answer: refusal(403, metav1.StatusReasonForbidden, "pods/eviction is forbidden"), want: `grant the service account "create" on "pods/eviction"`},
		"a webhook":            {answer: refusal(400, metav1.StatusReasonBadRequest, "admission webhook does not support dry run"), want: "webhook"},
		"a webhook, trial":     {answer: refusal(400, metav1.StatusReasonBadRequest, "admission webhook does not support dry run"), trial: true},
		"the server is broken": {answer: refusal(500, metav1.StatusReasonInternalError, "etcd"), want: "etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, pod("train", "Job", gpu("nvidia.com/gpu")))
				b.node["spec"].(map[string]any)["unschedulable"] = true
				b.budget = func(string) *metav1.Status { return tc.answer }
				begin := time.Now()
				err := b.agent().evict(t.Context(), b.pods[0], tc.trial)
				var refused *refusedError
				switch {
				case tc.want == "" && err != nil, tc.want != "" && !errors.As(err, &refused):
					t.Fatal(err)
				case tc.want != "" && (!strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "team/train")):
					t.Error(err)
				}
				if took := time.Since(begin); took > 0 {
					t.Errorf("the client waited for %s by itself", took)
				}
			})
		})
	}
}

// TestNamesake: the next pod of a StatefulSet has the name of the evicted one; it is another pod, on another
// node.
func TestNamesake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, pod("train-0", "StatefulSet", gpu("nvidia.com/gpu")))
		seen := *b.pods[0]
		b.pods[0].UID = types.UID("uid-of-another")
		b.node["spec"].(map[string]any)["unschedulable"] = true
		if err := b.agent().evict(t.Context(), &seen, false); err != nil || b.pods[0].DeletionTimestamp != nil {
			t.Errorf("%v; evicted: %v", err, b.pods[0].DeletionTimestamp)
		}
	})
}

func TestGracePeriod(t *testing.T) {
	t.Parallel()
	for _, seconds := range []int64{-1, 0, 30} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, pod("train", "Job", gpu("nvidia.com/gpu")))
			b.node["spec"].(map[string]any)["unschedulable"] = true
			b.cfg.GracePeriod = seconds
			require.NoError(t, b.agent().evict(t.Context(), b.pods[0], false))
			got := b.grace
			if seconds < 0 && got != nil || seconds >= 0 && (got == nil || *got != seconds) {
				t.Errorf("%d: sent %v", seconds, got)
			}
		})
	}
}
