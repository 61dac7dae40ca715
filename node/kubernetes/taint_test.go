package kubernetes

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

// TestRemoveTaints checks that only the taints with the keys go, also while another client changes the list.
func TestRemoveTaints(t *testing.T) {
	t.Parallel()
	const ours = "example.com/starting"
	for name, test := range map[string]struct {
		has       []corev1.Taint
		meanwhile func(st *apitest.State, request int) // before each request
		want      string                               // keys that stay
		removed   string
		err       error
	}{
		"ours alone":   {[]corev1.Taint{taint(ours, "NoSchedule")}, nil, "", ours, nil},
		"two effects":  {[]corev1.Taint{taint(ours, "NoSchedule"), taint("other", "NoSchedule"), taint(ours, "NoExecute")}, nil, "other", ours, nil},
		"none of ours": {[]corev1.Taint{taint("other", "NoSchedule")}, nil, "other", "", nil},
		"another one is added in front": {[]corev1.Taint{taint(ours, "NoSchedule")}, func(st *apitest.State, request int) {
			if request == 2 {
				st.Node.Spec.Taints = append([]corev1.Taint{taint("new", "NoSchedule")}, st.Node.Spec.Taints...)
			}
		}, "new", ours, nil},
		"another program changes its value": {[]corev1.Taint{taint(ours, "NoSchedule")}, func(st *apitest.State, request int) {
			if request == 2 {
				st.Node.Spec.Taints = []corev1.Taint{{Key: ours, Effect: "NoSchedule", Value: "x"}}
			}
		}, "", ours, nil},
		"somebody changes the list all the time": {[]corev1.Taint{taint(ours, "NoSchedule")}, func(st *apitest.State, request int) {
			if request%2 == 0 {
				st.Node.Spec.Taints = append([]corev1.Taint{taint(fmt.Sprint("n", request), "NoSchedule")}, st.Node.Spec.Taints...)
			}
		}, "n20 n18 n16 n14 n12 n10 n8 n6 n4 n2 " + ours, "", ErrUnreachable},
		"no right": {[]corev1.Taint{taint(ours, "NoSchedule")}, func(st *apitest.State, _ int) { st.Denied = []string{"patch nodes"} }, ours, "", ErrForbidden},
		"no right to look": {[]corev1.Taint{taint(ours, "NoSchedule")}, func(st *apitest.State, _ int) { st.Denied = []string{"get nodes"} },
			ours, "", ErrForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := start(t)
			s.Do(func(st *apitest.State) {
				st.Node.Spec.Taints = test.has
				st.OnRequest = func(st *apitest.State) {
					if test.meanwhile != nil {
						test.meanwhile(st, len(st.Requests))
					}
				}
			})
			removed, err := c.RemoveTaints(t.Context(), testNode, []string{ours})
			assert.ErrorIs(t, err, test.err)
			if err == nil {
				assert.Equal(t, test.removed, strings.Join(removed, " "))
			}
			s.Do(func(st *apitest.State) {
				var keys []string
				for _, left := range st.Node.Spec.Taints {
					keys = append(keys, left.Key)
				}
				assert.Equal(t, test.want, strings.Join(keys, " "))
			})
		})
	}
	_, c := start(t)
	_, err := c.RemoveTaints(t.Context(), "", []string{ours})
	assert.ErrorIs(t, err, ErrNoCluster)
}
