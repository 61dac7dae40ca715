package gpus

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

func embedded(t *testing.T) *matrix.Matrix {
	t.Helper()
	return require.Value(matrix.Parse("matrix.yaml", drivercontainer.Matrix))(t)
}

// day is one on which R535 and R610 are over, and R580 and R595 are supported.
var day = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// TestEveryGPU: no driver of the matrix that drives a GPU is better than the answer, for every GPU of the list;
// an unknown GPU gets the newest one that has open modules.
func TestEveryGPU(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	for _, g := range append(slices.Clone(All()), Unknown(0xfffe), Unknown(0x3041)) {
		a := For(m, g, day)
		var best matrix.Driver
		modules, newest := ModulesNone, ""
		for _, d := range m.Drivers {
			open, proprietary := g.Check(d.Version, matrix.Open) == nil && slices.Contains(d.Flavours, matrix.Open), g.Check(d.Version, matrix.Proprietary) == nil
			if d.VGPU != "" || !open && !proprietary {
				continue
			}
			if matrix.CompareVersions(d.Branch, newest) > 0 {
				newest = d.Branch
			}
			if a.Known && best.Version != "" && releases.Order(d, best, day) > 0 || !a.Known && matrix.CompareVersions(d.Version, best.Version) < 0 {
				continue
			}
			best, modules = d, map[[2]bool]string{{true, true}: ModulesAny, {true, false}: matrix.Open, {false, true}: matrix.Proprietary}[[2]bool{open, proprietary}]
		}
		if a.Driver != best.Version || a.Modules != modules || a.Why == "" || a.Branch != newest || (a.Support == "") != (best.Version == "") {
			t.Errorf("%s %s: %+v; the matrix has %q (%s), newest branch %s", g.ID(), g.Name, a, best.Version, modules, newest)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	for device, want := range map[uint16][4]string{ // driver and modules, end of support, long-term driver, reason
		0x06c0: {"390.157 proprietary", "over since 2022-11", "", "R390 is the last branch"}, 0x102d: {"470.256.02 proprietary", "over since 2024-07", "", "R470 is the last branch"},
		0x1db1: {"580. proprietary", "LTS until 2028-06", "580.", "the open modules do not drive it"}, 0x1eb8: {"595. any", "production until 2027-03", "580.", "current branches"},
		0x2901: {"595. open", "production", "580.", "current branches"}, 0x2924: {"595. open", "production", "580.", "by its chip GB100"},
		0x2189: {"595. any", "production", "580.", "the open modules drive it from R565 on"},
		0x0191: {" none", "", "", "no driver of the matrix: R340"}, 0x0ff2: {" none", "", "", "R367"}, 0xfffe: {"6 open", "", "", "not in the list"},
	} {
		g, ok := Lookup(device)
		if !ok {
			g = Unknown(device)
		}
		a := For(m, g, day)
		version, modules, _ := strings.Cut(want[0], " ")
		if !strings.HasPrefix(a.Driver, version) || (a.Driver == "") != (version == "") || a.Modules != modules ||
			!strings.HasPrefix(a.Support, want[1]) || !strings.HasPrefix(a.LongTerm, want[2]) || (a.LongTerm == "") != (want[2] == "") || !strings.Contains(a.Why, want[3]) {
			t.Errorf("%s: %+v, want %q", a.ID, a, want)
		}
	}
}

// ruleObject is what the test reads of a NodeFeatureRule; ci/peers/nfd gives the whole to NFD itself.
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

// TestWrite: each GPU is in one rule, with the labels of the newest driver that drives it; the rule for unknown
// GPUs excludes all.
func TestWrite(t *testing.T) {
	t.Parallel()
	whole := embedded(t)
	checkRules(t, whole)
	for _, only := range [][]string{{"R570"}, {"R535"}, {"R390", "R550"}, {"R570", "R580"}} {
		few := *whole
		few.Drivers = slices.DeleteFunc(slices.Clone(whole.Drivers), func(d matrix.Driver) bool { return !slices.Contains(only, d.Branch) })
		checkRules(t, &few)
	}
}

func checkRules(t *testing.T, m *matrix.Matrix) {
	t.Helper()
	var text, again bytes.Buffer
	require.NoError(t, Write(&text, m))
	require.NoError(t, Write(&again, m))
	if !bytes.Equal(text.Bytes(), again.Bytes()) {
		t.Error("two calls write different bytes")
	}
	var object ruleObject
	require.NoError(t, yaml.Unmarshal(text.Bytes(), &object))
	names := map[string]bool{}
	for _, r := range object.Spec.Rules {
		if names[r.Name] {
			t.Errorf("two rules have the name %s", r.Name)
		}
		names[r.Name] = true
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
		labels, branch, word := seen[fmt.Sprintf("%04x", g.Device)], ModulesNone, ModulesNone
		if d, flavours, ok := Newest(m, g); ok {
			branch, word = d.Branch, ModulesAny
			if len(flavours) == 1 {
				word = flavours[0]
			}
		}
		if labels["nvidia.com/driver.branch"] != branch || labels["nvidia.com/driver.modules"] != word || labels["nvidia.com/gpu.generation"] != strings.ToLower(g.Generation) {
			t.Errorf("%s %s: labels %v, want %s %s", g.ID(), g.Name, labels, branch, word)
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
			if a.Branch == ModulesNone || b.Branch == ModulesNone {
				continue
			}
			conflict := slices.ContainsFunc(bad, func(p [2]group) bool { return p[0].Variable == a.Variable && p[1].Variable == b.Variable })
			d, flavours, ok := Newest(m, a.GPU, b.GPU)
			if conflict == ok {
				t.Errorf("%s and %s: conflict %v, driver %q", a.Variable, b.Variable, conflict, d.Version)
			}
			if ok && (b.Branch != d.Branch || len(flavours) == 1 && b.Modules != flavours[0]) {
				t.Errorf("%s and %s: labels %s %s, driver of both %s %v", a.Variable, b.Variable, b.Branch, b.Modules, d.Branch, flavours)
			}
		}
	}
	if len(bad) < 5 {
		t.Errorf("%d conflicts", len(bad))
	}
}
