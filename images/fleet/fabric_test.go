package fleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/status"
)

// switched are labels of nodes whose GPUs NVLink switches can join, as clouds and node feature discovery write them; alone are
// labels of others.
var (
	switched = []map[string]string{
		{nfd + "pci-0302_10de_2330.present": "true"}, {nfd + "pci-0302_10de_20b2.present": "true"}, {nfd + "pci-0302_10de_2901.present": "true"},
		{nfd + "pci-0302_10de_3182.present": "true"}, {nfd + "pci-0302_10de_1db8.present": "true"},
		{nfd + "pci-0680_10de.present": "true"}, {nfd + "pci-0680_10de_22a3.present": "true"}, {nfd + "pci-10de_1af1.present": "true"},
		{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED"},
		{"cloud.google.com/gke-accelerator": "nvidia-h200-141gb"}, {"karpenter.k8s.aws/instance-gpu-name": "b200"},
		{"node.kubernetes.io/instance-type": "p5.48xlarge"}, {"node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5"},
		{"node.kubernetes.io/instance-type": "a3-megagpu-8g"}, {"beta.kubernetes.io/instance-type": "BM.GPU.H100.8"},
	}
	alone = []map[string]string{
		{}, {nfd + "pci-0302_10de_2941.present": "true"}, {nfd + "pci-0302_10de_1eb8.present": "true"}, {nfd + "pci-0302_10de_2331.present": "true"}, {nfd + "pci-0302_10de_2321.present": "true"},
		{"nvidia.com/gpu.product": "NVIDIA-H100-PCIe"}, {"node.kubernetes.io/instance-type": "g5.xlarge"}, {"cloud.google.com/gke-accelerator": "nvidia-l4"},
	}
)

// drawMany draws nodes with a GPU, each with one of some sets of labels.
func drawMany(t *rapid.T, name string, sets []map[string]string) []fleet.Node {
	var items []string
	for i := range rapid.IntRange(0, 5).Draw(t, name) {
		s := rapid.SampledFrom(machines).Draw(t, "system")
		labels := maps.Clone(rapid.SampledFrom(sets).Draw(t, "labels"))
		labels["kubernetes.io/arch"] = rapid.SampledFrom([]string{"amd64", "arm64"}).Draw(t, "arch")
		labels[nfd+"pci-0302_10de.present"] = "true"
		discover(labels, s.id, s.version, s.kernel)
		items = append(items, item(fmt.Sprintf("%s%d", name, i), labels, s.kernel, s.image))
	}
	return parse(t, items)
}

// drawMatrix draws a matrix whose drivers lack components at random.
func drawMatrix(t *rapid.T, m *matrix.Matrix) *matrix.Matrix {
	drawn := *m
	drawn.Drivers = slices.Clone(m.Drivers)
	for i := range drawn.Drivers {
		if rapid.Bool().Draw(t, "without components") {
			drawn.Drivers[i].Components = nil
		}
	}
	return &drawn
}

// TestSwitches: a machine whose GPUs NVLink switches can join never gets a driver without the fabric manager, unless it is named,
// and then a warning names the machine. For the others nothing changes.
func TestSwitches(t *testing.T) {
	t.Parallel()
	whole := rows(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := drawMatrix(rt, whole)
		o := fleet.Options{Advisor: advisor}
		if rapid.Bool().Draw(rt, "named") {
			o.Drivers = []string{rapid.SampledFrom(m.Drivers).Draw(rt, "driver").Version}
		}
		joined, others := drawMany(rt, "joined", switched), drawMany(rt, "other", alone)
		p := require.Value(fleet.Recommend(m, append(joined, others...), o))(rt)
		checkPlan(rt, append(joined, others...), p)
		warnings := strings.Join(p.Warnings, "\n")
		for _, im := range p.Images {
			d := m.Drivers[slices.IndexFunc(m.Drivers, func(d matrix.Driver) bool { return d.Version == im.Driver })]
			lacks := len(d.Components[matrix.FabricManager]) == 0
			for _, n := range im.Nodes {
				wants := strings.HasPrefix(n, "joined")
				if wants && lacks && o.Drivers == nil {
					rt.Errorf("%s gets %s, which has no fabric manager", n, im.Driver)
				}
				if warned := strings.Contains(warnings, n+":") || strings.Contains(warnings, n+","); lacks && warned != wants {
					rt.Errorf("%s gets %s; warned: %v: %s", n, im.Driver, warned, warnings)
				}
			}
		}
		before := require.Value(fleet.Recommend(whole, others, o))(rt)
		after := require.Value(fleet.Recommend(m, others, o))(rt)
		assert.Same(rt, require.Value(json.Marshal(before.Images))(rt), require.Value(json.Marshal(after.Images))(rt))
		assert.Same(rt, require.Value(json.Marshal(before.Pools))(rt), require.Value(json.Marshal(after.Pools))(rt))
	})
}

// TestUnnamed: a hint names the nodes that may have NVLink switches for all that is known, if their driver lacks the fabric manager.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	m := rows(t)
	node := func(name, label string) string {
		labels := map[string]string{"kubernetes.io/arch": "amd64", nfd + "pci-10de.present": "true", label: "true"}
		discover(labels, "debian", "12", "6.1.0-56-amd64")
		return item(name, labels, "6.1.0-56-amd64", "Debian GNU/Linux 12 (bookworm)")
	}
	all := parse(t, []string{node("a", "nvidia.com/gpu.present"), node("b", nfd+"pci-0302_10de_1eb8.present")})
	p := require.Value(fleet.Recommend(m, all, fleet.Options{Advisor: advisor}))(t)
	assert.Equal(t, 0, len(p.Hints))
	for i := range m.Drivers {
		m.Drivers[i].Components = nil
	}
	p = require.Value(fleet.Recommend(m, all, fleet.Options{Advisor: advisor}))(t)
	assert.Equal(t, 1, len(p.Hints))
	assert.Same(t, []string{"a"}, p.Hints[0].Nodes)
	assert.ErrorContains(t, errors.New(p.Hints[0].Text), "nothing says which GPU it has, and driver 595.91.07 comes without the fabric manager")
}

// TestAdvisoriesOfNodes: a fleet without nodes that an advisory is about has the plan, and the warnings, that it has without the
// advisory. A node that it is about gets another driver if one fits, and a warning if none does.
func TestAdvisoriesOfNodes(t *testing.T) {
	t.Parallel()
	m := rows(t)
	bad := *m
	bad.Drivers = slices.Clone(m.Drivers)
	for i := range bad.Drivers {
		if bad.Drivers[i].Branch == "R595" {
			bad.Drivers[i].Advisories = []matrix.Advisory{{
				Advisory: driverinfo.Advisory{ID: "efa", Kind: driverinfo.KnownBad, Affects: "P6e", Reason: "r", Fixed: "999.1", Source: "s"},
				Nodes:    &matrix.AdvisoryNodes{Instances: []string{"p6e-*"}},
			}}
		}
	}
	hit := []map[string]string{{"node.kubernetes.io/instance-type": "p6e-gb200.36xlarge"}}
	warnings := func(p *fleet.Recommendation) []status.Warning {
		return status.WarningsOf(p.Targets(), advisor).All
	}
	rapid.Check(t, func(rt *rapid.T) {
		o := fleet.Options{Advisor: advisor}
		if rapid.Bool().Draw(rt, "named") {
			o.Drivers = []string{"595.91.07"}
		}
		others := append(drawMany(rt, "joined", switched), drawMany(rt, "other", alone)...)
		without := require.Value(fleet.Recommend(m, others, o))(rt)
		with := require.Value(fleet.Recommend(&bad, others, o))(rt)
		assert.Same(rt, require.Value(json.Marshal(without))(rt), require.Value(json.Marshal(with))(rt))
		assert.Same(rt, warnings(without), warnings(with))

		hits := drawMany(rt, "hit", hit)
		with = require.Value(fleet.Recommend(&bad, append(others, hits...), o))(rt)
		warned := slices.ContainsFunc(warnings(with), func(w status.Warning) bool { return w.Kind == driverinfo.KnownBad })
		want := false
		for _, im := range with.Images {
			has := slices.ContainsFunc(im.Nodes, func(n string) bool { return strings.HasPrefix(n, "hit") })
			want = want || has && im.Driver == "595.91.07"
		}
		assert.Equal(rt, want, warned)
		if want && o.Drivers == nil {
			rt.Errorf("a node of the advisory gets 595.91.07, and 580.173.02 fits it")
		}
	})
}
