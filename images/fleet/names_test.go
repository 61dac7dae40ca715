package fleet_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/matrix"
)

// selectorOf is everything by which a pool chooses its nodes, what they get, and what they would be called alone, as one text: a pool
// whose nodes need different things, which no label tells apart, is another pool than one whose nodes need the same.
func selectorOf(t rapid.TB, m *matrix.Matrix, all []fleet.Node, o fleet.Options, pool fleet.Pool) string {
	t.Helper()
	var alone []string
	for _, n := range all {
		if slices.Contains(pool.Nodes, n.Name) {
			p := require.Value(fleet.Recommend(m, []fleet.Node{n}, o))(t)
			alone = append(alone, poolsOf(p)[n.Name])
		}
	}
	slices.Sort(alone)
	parts := []any{pool.NodeSelector, pool.AnyOf, pool.Driver, pool.KernelModuleType, pool.Kernel, slices.Compact(alone)}
	return string(require.Value(json.Marshal(parts))(t))
}

// TestOthersChangeNoName: when other nodes join, leave or get other labels, a pool that chooses by the same labels and gives its nodes
// the same keeps its name. Nodes with all labels are in a pool of the same name for ever: it follows from them alone.
func TestOthersChangeNoName(t *testing.T) {
	t.Parallel()
	m := rows(t)
	for name, c := range map[string]struct {
		draw    func(*rapid.T, string, int) []fleet.Node
		forEver bool
	}{"any labels": {drawNodes, false}, "all labels": {drawLabelled, true}} {
		t.Run(name, rapid.MakeCheck(func(rt *rapid.T) {
			o := fleet.Options{Advisor: advisor, Precompiled: rapid.Bool().Draw(rt, "precompiled")}
			stay := c.draw(rt, "stay", 8)
			before := append(slices.Clone(stay), c.draw(rt, "leave", 4)...)
			after := append(slices.Clone(stay), c.draw(rt, "join", 4)...)
			first := require.Value(fleet.Recommend(m, before, o))(rt)
			second := require.Value(fleet.Recommend(m, after, o))(rt)
			names := map[string]string{}
			for _, pool := range first.Pools {
				names[selectorOf(rt, m, before, o, pool)] = pool.Name
			}
			for _, pool := range second.Pools {
				was := names[selectorOf(rt, m, after, o, pool)]
				if was != "" && was != pool.Name {
					rt.Errorf("%s becomes %s: %v %v", was, pool.Name, pool.NodeSelector, pool.AnyOf)
				}
			}
			pools := poolsOf(second)
			for node, was := range poolsOf(first) {
				if c.forEver && pools[node] != "" && pools[node] != was {
					rt.Errorf("the pool of %s was %s and is %s", node, was, pools[node])
				}
			}
		}))
	}
}

// TestJoinsRenameNothing has joins that renamed pools, and what the pools choose then.
func TestJoinsRenameNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		here   []string // devices
		joins  string
		before map[string]string
		after  map[string]string
	}{
		"an L40S beside T4s and a B200": {
			[]string{"1eb8", "1eb8", "1eb8", "1eb8", "1eb8", "1eb8", "1eb8", "1eb8", "1eb8", "1eb8", "2901"}, "26b9",
			map[string]string{"1eb8": "ubuntu2204", "2901": "ubuntu2204-open-hgx"},
			map[string]string{"1eb8": "ubuntu2204", "2901": "ubuntu2204-open-hgx", "26b9": "ubuntu2204"},
		},
		"a V100 beside a T4 and a P100": {
			[]string{"1eb8", "15f8"}, "1db1",
			map[string]string{"1eb8": "ubuntu2204", "15f8": "ubuntu2204-r580"},
			map[string]string{"1eb8": "ubuntu2204", "15f8": "ubuntu2204-r580", "1db1": "ubuntu2204-r580"},
		},
		"a B200 beside a T4": {
			[]string{"1eb8"}, "2901",
			map[string]string{"1eb8": "ubuntu2204"},
			map[string]string{"1eb8": "ubuntu2204", "2901": "ubuntu2204-open-hgx"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Same(t, c.before, poolsOfDevices(t, c.here))
			assert.Same(t, c.after, poolsOfDevices(t, append(c.here, c.joins)))
		})
	}
}

// poolsOfDevices returns the pools of nodes with devices, by device.
func poolsOfDevices(t *testing.T, devices []string) map[string]string {
	t.Helper()
	var items []string
	for i, device := range devices {
		items = append(items, ubuntuNode(device+"-"+string(rune('a'+i)), device))
	}
	all := parse(t, items)
	p := require.Value(fleet.Recommend(rows(t), all, fleet.Options{Advisor: advisor}))(t)
	checkPlan(t, all, p)
	pools := map[string]string{}
	for node, pool := range poolsOf(p) {
		pools[node[:4]] = pool
	}
	return pools
}
