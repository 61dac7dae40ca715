package kubernetes

import (
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func TestGrace(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	spec := map[string]any{"terminationGracePeriodSeconds": 30}
	s.Do(func(st *apitest.State) {
		st.Pods = map[string]any{
			"gpu/serving": map[string]any{"metadata": map[string]any{"name": "serving"}, "spec": spec},
			"gpu/ending":  map[string]any{"metadata": map[string]any{"deletionGracePeriodSeconds": 10}, "spec": spec},
			"gpu/odd":     map[string]any{"spec": map[string]any{"terminationGracePeriodSeconds": -1}},
			"gpu/empty":   map[string]any{},
		}
	})
	for pod, want := range map[string]time.Duration{"serving": 30 * time.Second, "ending": 10 * time.Second, "odd": 0, "empty": 0, "gone": 0, "": 0} {
		if got, err := c.Grace(t.Context(), "gpu", pod); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %s, %v", pod, got, err)
		}
	}
	s.Do(func(st *apitest.State) { st.Denied = []string{"get pods"} })
	assert.ErrorIs(t, assert.Err(c.Grace(t.Context(), "gpu", "serving")), ErrForbidden)
}
