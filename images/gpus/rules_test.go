package gpus

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

func embedded(t *testing.T) *matrix.Matrix {
	t.Helper()
	return require.Value(matrix.Parse("matrix.yaml", drivercontainer.Matrix))(t)
}

// advisor judges on a day on which R535 and R610 are over, and R580 and R595 are supported.
var advisor = releases.Advisor{Day: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}

// TestEveryGPU: no driver of the matrix that drives a GPU is better than the answer, for every GPU of the list;
// an unknown GPU gets the newest one that has open modules.
func TestEveryGPU(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	for _, g := range append(slices.Clone(All()), Unknown(0xfffe), Unknown(0x3041)) {
		a := For(m, g, advisor)
		var best matrix.Driver
		modules, newest := ModulesNone, ""
		for _, d := range m.Drivers {
			open, proprietary := g.Check(d.Version, matrix.Open) == nil && slices.Contains(d.Flavours, matrix.Open), g.Check(d.Version, matrix.Proprietary) == nil
			if d.VGPU != "" || !open && !proprietary {
				continue
			}
			lacks := len(d.Components.Lacks("", g.Components())) > 0 // each GPU of the list has a driver that lacks nothing
			if matrix.CompareVersions(d.Branch, newest) > 0 {
				newest = d.Branch
			}
			if lacks || a.Known && best.Version != "" && advisor.Order(d, best) > 0 || !a.Known && matrix.CompareVersions(d.Version, best.Version) < 0 {
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
		a := For(m, g, advisor)
		version, modules, _ := strings.Cut(want[0], " ")
		if !strings.HasPrefix(a.Driver, version) || (a.Driver == "") != (version == "") || a.Modules != modules ||
			!strings.HasPrefix(a.Support, want[1]) || !strings.HasPrefix(a.LongTerm, want[2]) || (a.LongTerm == "") != (want[2] == "") || !strings.Contains(a.Why, want[3]) {
			t.Errorf("%s: %+v, want %q", a.ID, a, want)
		}
	}
}

// expression is one of a rule about a device, or about variables of earlier rules.
type expression struct {
	Op    string
	Value []string
}

// feature is what a rule asks of a device (pci.device), or of earlier rules (rule.matched).
type feature struct {
	Feature          string
	MatchExpressions map[string]expression `yaml:"matchExpressions"`
}

// ruleObject is what the test reads of a NodeFeatureRule; ci/peers/nfd gives the whole to NFD itself.
type ruleObject struct {
	Spec struct {
		Rules []struct {
			Name          string
			Labels, Vars  map[string]string
			MatchFeatures []feature `yaml:"matchFeatures"`
			MatchAny      []struct {
				MatchFeatures []feature `yaml:"matchFeatures"`
			} `yaml:"matchAny"`
		}
	}
}

// rulesOf returns the rules for a list of GPUs.
func rulesOf(t rapid.TB, list []GPU) ruleObject {
	t.Helper()
	var text bytes.Buffer
	var object ruleObject
	require.NoError(t, writeRules(&text, list))
	require.NoError(t, yaml.Unmarshal(text.Bytes(), &object))
	return object
}

// label returns the labels of a node with GPUs, as NFD makes them of the rules.
func (o ruleObject) label(devices ...uint16) map[string]string {
	labels, matched := map[string]string{}, map[string]string{}
	holds := func(f feature) bool {
		if f.Feature == "rule.matched" {
			for name, e := range f.MatchExpressions {
				if (matched[name] == "true") != (e.Op == "IsTrue") {
					return false
				}
			}
			return true
		}
		device, ok := f.MatchExpressions["device"]
		return !ok || slices.ContainsFunc(devices, func(d uint16) bool {
			return slices.Contains(device.Value, fmt.Sprintf("%04x", d)) == (device.Op == "In")
		})
	}
	for _, r := range o.Spec.Rules {
		ok := !slices.ContainsFunc(r.MatchFeatures, func(f feature) bool { return !holds(f) })
		for _, any := range r.MatchAny {
			ok = !slices.ContainsFunc(any.MatchFeatures, func(f feature) bool { return !holds(f) })
			if ok {
				break
			}
		}
		if ok {
			maps.Copy(labels, r.Labels)
			maps.Copy(matched, r.Vars)
		}
	}
	return labels
}

// TestWrite: every GPU has the labels of its own facts, whatever a matrix has; two calls write the same.
func TestWrite(t *testing.T) {
	t.Parallel()
	var text, again bytes.Buffer
	require.NoError(t, Write(&text))
	require.NoError(t, Write(&again))
	assert.Equalf(t, text.String(), again.String(), "the second call")
	rules := rulesOf(t, All())
	names := map[string]bool{}
	for _, r := range rules.Spec.Rules {
		if names[r.Name] {
			t.Errorf("two rules have the name %s", r.Name)
		}
		names[r.Name] = true
	}
	for _, g := range append(slices.Clone(All()), Unknown(0xfffe)) {
		labels := rules.label(g.Device)
		want := []string{strings.ToLower(g.Generation), g.Modules(), g.Last()}
		got := []string{labels["nvidia.com/gpu.generation"], labels["nvidia.com/driver.modules"], labels["nvidia.com/driver.last-branch"]}
		assert.Samef(t, want, got, "labels of %s %s", g.ID(), g.Name)
	}
}

// TestMixed: on a node with two kinds of GPUs the labels are what fits both, as far as a driver of the matrix drives both.
func TestMixed(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	rules := rulesOf(t, All())
	all := groups(All(), GPU.facts)
	conflicting := 0
	for i, a := range all {
		for _, b := range all[i+1:] {
			labels := rules.label(a.Device, b.Device)
			if !a.Driven() || !b.Driven() {
				continue
			}
			d, _, ok := Newest(m, a.GPU, b.GPU)
			conflict := labels["nvidia.com/driver.conflict"] == "true"
			if conflict {
				conflicting++
			}
			if conflict == ok {
				t.Errorf("%s and %s: conflict %v, driver %q", a.Variable, b.Variable, conflict, d.Version)
			}
			lacksB := func(flavour string) bool { return !slices.Contains(b.Flavours, flavour) }
			common := slices.DeleteFunc(slices.Clone(a.Flavours), lacksB) // the driver may have one alone, as R615 has
			modules := ModulesAny
			if len(common) == 1 {
				modules = common[0]
			}
			last := labels["nvidia.com/driver.last-branch"]
			if ok && (labels["nvidia.com/driver.modules"] != modules || last != "" && last != d.Branch) {
				t.Errorf("%s and %s: labels %v, driver of both %s, modules %v", a.Variable, b.Variable, labels, d.Branch, common)
			}
		}
	}
	if conflicting < 5 {
		t.Errorf("%d conflicts", conflicting)
	}
	assert.Equalf(t, "turing", rules.label(0x1eb8, 0x0191)["nvidia.com/gpu.generation"], "a GPU without a driver beside one with a driver")
	assert.Equalf(t, "", rules.label(0x1eb8, 0x0191)["nvidia.com/driver.last-branch"], "the same")
	assert.Equalf(t, ModulesNone, rules.label(0x0191)["nvidia.com/driver.last-branch"], "a GPU without a driver")
}

// TestLabelsStay: when later drivers drop a generation, nodes keep each label that they have, so that what chose them still does,
// and chooses no other node. New drivers of a matrix are no part of the rules.
func TestLabelsStay(t *testing.T) {
	t.Parallel()
	now := rulesOf(t, All())
	current := slices.DeleteFunc(Generations(), func(name string) bool {
		return !slices.ContainsFunc(All(), func(g GPU) bool { return g.Generation == name && g.LastBranch == "" })
	})
	for _, dropped := range current {
		later := slices.Clone(All())
		for i := range later {
			if later[i].Generation == dropped {
				later[i].LastBranch = "R690"
			}
		}
		then := rulesOf(t, later)
		t.Run(dropped, rapid.MakeCheck(func(rt *rapid.T) {
			var devices []uint16
			for range rapid.IntRange(1, 3).Draw(rt, "GPUs") {
				devices = append(devices, rapid.SampledFrom(All()).Draw(rt, "GPU").Device)
			}
			before, after := now.label(devices...), then.label(devices...)
			for key, value := range before {
				if after[key] != value {
					rt.Errorf("%s was %s and is %s on a node with %04x", key, value, after[key], devices)
				}
			}
		}))
	}
}
