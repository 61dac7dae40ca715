package gpulist

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

func embedded(t *testing.T) *matrix.Matrix {
	t.Helper()
	return require.Value(matrix.Parse("matrix.yaml", drivercontainer.Matrix))(t)
}

// TestEveryGPU: of the drivers of the matrix that drive a GPU the answer is the newest, for every GPU of
// the list.
func TestEveryGPU(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	for _, g := range append(slices.Clone(All()), Unknown(0xfffe)) {
		a, newest, modules := For(m, g), "", ModulesNone
		for _, d := range m.Drivers {
			open, proprietary := g.Check(d.Version, Open) == nil && slices.Contains(d.Flavours, Open), g.Check(d.Version, Proprietary) == nil
			if d.VGPU != "" || !open && !proprietary || newest != "" && releases.Compare(d.Version, newest) < 0 {
				continue
			}
			newest, modules = d.Version, map[[2]bool]string{{true, true}: ModulesAny, {true, false}: Open, {false, true}: Proprietary}[[2]bool{open, proprietary}]
		}
		if !a.Known {
			modules = Open
		}
		if a.Driver != newest || a.Modules != modules || a.Why == "" || (a.Branch == "") != (newest == "") {
			t.Errorf("%s %s: %+v; the matrix has %q (%s)", g.ID(), g.Name, a, newest, modules)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	for device, want := range map[uint16][2]string{
		0x06c0: {"390.157 proprietary", "R390 is the last branch"}, 0x102d: {"470.256.02 proprietary", "R470 is the last branch"},
		0x1db1: {"580. proprietary", "the open modules do not drive it"}, 0x1eb8: {"6 any", "current branches"}, 0x2901: {"6 open", "current branches"}, 0x2924: {"6 open", "by its chip GB100"},
		0x0191: {" none", "no driver of the matrix: R340"}, 0x0ff2: {" none", "R367"}, 0xfffe: {"6 open", "not in the list"},
	} {
		g, ok := Lookup(device)
		if !ok {
			g = Unknown(device)
		}
		a := For(m, g)
		version, modules, _ := strings.Cut(want[0], " ")
		if !strings.HasPrefix(a.Driver, version) || (a.Driver == "") != (version == "") || a.Modules != modules || !strings.Contains(a.Why, want[1]) {
			t.Errorf("%s: %+v, want %q", a.ID, a, want)
		}
	}
}

// ruleObject is what the test reads of a NodeFeatureRule; ci/nfd gives the whole to NFD itself.
type ruleObject struct {
	Spec struct {
		Rules []struct {
			Name          string
			Labels, Vars  map[string]string
			MatchFeatures []struct {
				MatchExpressions map[string]struct {
					Op    string
					Value []string
				} `yaml:"matchExpressions"`
			} `yaml:"matchFeatures"`
			MatchAny []any `yaml:"matchAny"`
		}
	}
}

// TestWrite: each GPU is in one rule, with the labels that For says; the rule for unknown GPUs excludes all.
func TestWrite(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	var text, again bytes.Buffer
	require.NoError(t, Write(&text, m))
	require.NoError(t, Write(&again, m))
	if !bytes.Equal(text.Bytes(), again.Bytes()) {
		t.Error("two calls write different bytes")
	}
	var object ruleObject
	require.NoError(t, yaml.Unmarshal(text.Bytes(), &object))
	if n := len(object.Spec.Rules); n < 12 || n > 20 {
		t.Errorf("%d rules", n)
	}
	seen, unknown := map[string]map[string]string{}, 0
	for _, r := range object.Spec.Rules {
		if len(r.MatchFeatures) == 0 || r.Name == "nvidia-driver.devices" {
			continue
		}
		device := r.MatchFeatures[0].MatchExpressions["device"]
		if device.Op == "NotIn" {
			unknown = len(device.Value)
			continue
		}
		for _, id := range device.Value {
			if seen[id] != nil {
				t.Errorf("%s is in two rules", id)
			}
			seen[id] = r.Labels
		}
	}
	if all := len(All()); len(seen) != all || unknown != all {
		t.Errorf("%d GPUs in rules, %d that the rule for unknown GPUs excludes; the list has %d", len(seen), unknown, all)
	}
	for _, g := range All() {
		a, labels := For(m, g), seen[fmt.Sprintf("%04x", g.Device)]
		branch := a.Branch
		if branch == "" {
			branch = ModulesNone
		}
		if labels[LabelBranch] != branch || labels[LabelModules] != a.Modules || labels[LabelGeneration] != strings.ToLower(g.Generation) {
			t.Errorf("%s %s: labels %v, answer %+v", g.ID(), g.Name, labels, a)
		}
	}
}

// TestOrder: on a node with two kinds of GPUs the later rule's labels are what fits both.
func TestOrder(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	all := groups(m, All())
	bad := conflicts(m, all)
	for i, a := range all {
		for _, b := range all[i+1:] {
			if rank(a) == 0 || rank(b) == 0 {
				continue
			}
			conflict := slices.ContainsFunc(bad, func(p [2]group) bool { return p[0].variable == a.variable && p[1].variable == b.variable })
			d, flavours, ok := Newest(m, a.GPU, b.GPU)
			if conflict == ok {
				t.Errorf("%s and %s: conflict %v, driver %q", a.variable, b.variable, conflict, d.Version)
			}
			if ok && (b.branch != d.Branch || len(flavours) == 1 && b.modules != flavours[0]) {
				t.Errorf("%s and %s: labels %s %s, driver of both %s %v", a.variable, b.variable, b.branch, b.modules, d.Branch, flavours)
			}
		}
	}
	if len(bad) < 5 {
		t.Errorf("%d conflicts", len(bad))
	}
}
