package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/node/status"
)

func TestCondition(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	s.Do(func(st *apitest.State) {
		st.Node.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True", LastHeartbeatTime: metav1.NewTime(noon)}}
	})
	set := func(now time.Time, cond Condition) {
		t.Helper()
		require.NoError(t, c.SetCondition(t.Context(), testNode, now, cond))
	}
	set(noon, Condition{Status: "True", Reason: "Serving", Message: "it serves", Changed: noon})
	set(noon.Add(time.Minute), Condition{Status: "True", Reason: "Serving", Message: strings.Repeat("é", 2000)})
	got := s.Condition(conditionType)
	if got.Status != "True" || !got.LastTransitionTime.Time.Equal(noon) || !got.LastHeartbeatTime.Time.Equal(noon.Add(time.Minute)) || len(got.Message) > maxMessage {
		t.Errorf("%v", got)
	}
	assert.Equalf(t, "True", string(s.Condition("Ready").Status), "other conditions")
	s.Do(func(st *apitest.State) { st.Denied = []string{"patch nodes/status"} })
	assert.ErrorIs(t, c.SetCondition(t.Context(), testNode, noon, Condition{Status: "False"}), ErrForbidden)
}

func TestRemoveAnnotation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		has       string
		meanwhile string // set between the read and the removal
		want      string
	}{
		"ours": {"me", "", ""}, "another's": {"you", "", "you"}, "none": {"", "", ""}, "another one is faster": {"me", "you", "you"},
	} {
		s, c := start(t)
		const key = "a~b.example/c"
		s.Do(func(st *apitest.State) {
			if test.has != "" {
				st.Node.Annotations[key] = test.has
			}
			st.OnRequest = func(st *apitest.State) {
				if len(st.Requests) == 2 && test.meanwhile != "" {
					st.Node.Annotations[key] = test.meanwhile
				}
			}
		})
		assert.NoErrorf(t, c.RemoveAnnotation(t.Context(), testNode, key, "me"), "%s", name)
		s.Do(func(st *apitest.State) {
			assert.Equalf(t, test.want, st.Node.Annotations[key], "%s: %q", name, st.Node.Annotations)
		})
	}
}

// The handshake with a controller that removes the annotation, and with another value in between.
func TestSafeLoad(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	safe := NewSafeLoad(c, testNode, "driver-x")
	value := func() (v string) {
		s.Do(func(st *apitest.State) { v = st.Node.Annotations[status.SafeLoadAnnotation] })
		return v
	}
	set := func(v string) {
		s.Do(func(st *apitest.State) {
			if delete(st.Node.Annotations, status.SafeLoadAnnotation); v != "" {
				st.Node.Annotations[status.SafeLoadAnnotation] = v
			}
		})
	}
	ask := func(want bool) {
		t.Helper()
		assert.Equalf(t, want, require.Value(safe.Ask(t.Context()))(t), "granted")
	}
	set("dead-pod")
	ask(false)
	assert.Equalf(t, "driver-x", value(), "another pod's is not replaced")
	ask(false)
	set("someone")
	ask(false)
	assert.Equalf(t, "driver-x", value(), "not set again")
	set("")
	ask(true)
	assert.NoError(t, safe.Withdraw(t.Context()))
	assert.Equal(t, "", value())
	ask(false) // a second start sets the annotation again
	assert.NoError(t, safe.Withdraw(t.Context()))
	assert.Equal(t, "", value())
	set("driver-x")
	if err := safe.Tidy(t.Context()); err != nil || value() == "" {
		t.Errorf("tidied after it was asked: %v", err)
	}
	assert.NoError(t, NewSafeLoad(c, testNode, "driver-x").Tidy(t.Context()))
	assert.Equalf(t, "", value(), "what a killed container left")
	if _, err := NewSafeLoad(c, testNode, "").Ask(t.Context()); !errors.Is(err, ErrNoCluster) || !strings.Contains(err.Error(), "POD_NAME") {
		t.Errorf("no pod: %v", err)
	}
	s.Do(func(st *apitest.State) { st.Denied = []string{"patch nodes"} })
	assert.ErrorIsf(t, assert.Err(NewSafeLoad(c, testNode, "y").Ask(t.Context())), ErrForbidden, "not allowed")
	s.Do(func(st *apitest.State) { st.Denied, st.Down = nil, true })
	if granted, err := safe.Ask(t.Context()); granted || !errors.Is(err, ErrUnreachable) {
		t.Errorf("down: %v, %v", granted, err)
	}
}
