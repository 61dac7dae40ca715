package kubernetes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
)

func taint(key, effect string) map[string]any { return map[string]any{"key": key, "effect": effect} }

// TestRemoveTaints checks that only the taints with the keys go, also while another client changes the list.
func TestRemoveTaints(t *testing.T) {
	t.Parallel()
	const ours = "example.com/starting"
	for name, test := range map[string]struct {
		has       []map[string]any
		meanwhile func(st *apitest.State, request int) // before each request
		want      string                               // keys that stay
		removed   string
		err       error
	}{
		"ours alone":   {[]map[string]any{taint(ours, "NoSchedule")}, nil, "", ours, nil},
		"two effects":  {[]map[string]any{taint(ours, "NoSchedule"), taint("other", "NoSchedule"), taint(ours, "NoExecute")}, nil, "other", ours, nil},
		"none of ours": {[]map[string]any{taint("other", "NoSchedule")}, nil, "other", "", nil},
		"another one is added in front": {[]map[string]any{taint(ours, "NoSchedule")}, func(st *apitest.State, request int) {
			if request == 2 {
				st.Taints = append([]map[string]any{taint("new", "NoSchedule")}, st.Taints...)
			}
		}, "new", ours, nil},
		"another program changes its value": {[]map[string]any{taint(ours, "NoSchedule")}, func(st *apitest.State, request int) {
			if request == 2 {
				st.Taints = []map[string]any{{"key": ours, "effect": "NoSchedule", "value": "x"}}
			}
		}, "", ours, nil},
		"somebody changes the list all the time": {[]map[string]any{taint(ours, "NoSchedule")}, func(st *apitest.State, request int) {
			if request%2 == 0 {
				st.Taints = append([]map[string]any{taint(fmt.Sprint("n", request), "NoSchedule")}, st.Taints...)
			}
		}, "n20 n18 n16 n14 n12 n10 n8 n6 n4 n2 " + ours, "", ErrUnreachable},
		"no right": {[]map[string]any{taint(ours, "NoSchedule")}, func(st *apitest.State, _ int) { st.Denied = []string{"patch nodes"} }, ours, "", ErrForbidden},
		"no right to look": {[]map[string]any{taint(ours, "NoSchedule")}, func(st *apitest.State, _ int) { st.Denied = []string{"get nodes"} },
			ours, "", ErrForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := start(t)
			s.Do(func(st *apitest.State) {
				st.Taints = test.has
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
				for _, left := range st.Taints {
					keys = append(keys, left["key"].(string))
				}
				assert.Equal(t, test.want, strings.Join(keys, " "))
			})
		})
	}
	_, c := start(t)
	_, err := c.RemoveTaints(t.Context(), "", []string{ours})
	assert.ErrorIs(t, err, ErrNoCluster)
}
