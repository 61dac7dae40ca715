package fleet_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/fleet/nodes"
)

const nfd = "feature.node.kubernetes.io/"

// drawList draws a node list in JSON, with labels that contradict each other, or lack, as in real clusters.
func drawList(t *rapid.T) string {
	systems := []struct{ id, version, image, kernel string }{
		{"ubuntu", "22.04", "Ubuntu 22.04.5 LTS", "5.15.0-122-generic"}, {"ubuntu", "22.04", "Ubuntu 22.04.5 LTS", "6.8.0-60-generic"},
		{"debian", "12", "Debian GNU/Linux 12 (bookworm)", "6.1.0-56-amd64"}, {"debian", "12", "Debian GNU/Linux 12 (bookworm)", "7.9.1"},
		{"rocky", "9.4", "Rocky Linux 9.4 (Blue Onyx)", "5.14.0-427.42.1.el9_4.x86_64"}, {"rocky", "9.5", "Rocky Linux 9.5 (Blue Onyx)", "5.14.0-503.40.1.el9_5.x86_64"},
		{"cos", "121", "Container-Optimized OS from Google", "6.6.93+"}, {"flatcar", "4081.2.0", "Flatcar Container Linux by Kinvolk 4081.2.0 (Oklo)", "6.6.60-flatcar"},
	}
	discovery := rapid.IntRange(0, 3).Draw(t, "node feature discovery") > 0
	var items []string
	for i := range rapid.IntRange(0, 14).Draw(t, "nodes") {
		s := rapid.SampledFrom(systems).Draw(t, "system")
		labels := map[string]string{"kubernetes.io/arch": rapid.SampledFrom([]string{"amd64", "amd64", "amd64", "arm64"}).Draw(t, "arch")}
		maybe := func(key string, values ...string) {
			if v := rapid.SampledFrom(append(values, "")).Draw(t, key); v != "" {
				labels[key] = v
			}
		}
		if discovery && rapid.IntRange(0, 5).Draw(t, "labelled") > 0 {
			labels[nfd+"system-os_release.ID"], labels[nfd+"system-os_release.VERSION_ID"] = s.id, s.version
			labels[nfd+"kernel-version.full"] = strings.TrimRight(s.kernel, "+")
			maybe(nfd+"system-os_release.VERSION_ID.major", strings.Split(s.version, ".")[0], strings.Split(s.version, ".")[0], strings.Split(s.version, ".")[0])
			maybe(nfd+"pci-0302_10de.present", "true", "true", "true")
		}
		maybe(nfd+"pci-0302_10de_"+rapid.SampledFrom([]string{"1eb8", "102d", "1db1", "2901", "06d1", "ffff"}).Draw(t, "gpu")+".present", "true", "true")
		maybe(nfd+"pci-0302_10de_2330.present", "true")
		maybe("nvidia.com/driver.branch", "R470", "R580", "R610")
		maybe("nvidia.com/gpu.deploy.driver", "pre-installed")
		maybe("nvidia.com/gpu.product", "Tesla-T4", "Tesla-K80")
		maybe("cloud.google.com/gke-accelerator", "nvidia-l4", "nvidia-tesla-t4")
		maybe("cloud.google.com/gke-nodepool", "a", "b")
		maybe("accelerator", "nvidia")
		maybe("node.kubernetes.io/instance-type", "large", "small")
		var pairs []string
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			pairs = append(pairs, fmt.Sprintf("%q: %q", key, labels[key]))
		}
		items = append(items, fmt.Sprintf(`{"metadata": {"name": "n%d", "labels": {%s}}, "status": {"nodeInfo": {"architecture": %q, "kernelVersion": %q, "osImage": %q}}}`,
			i, strings.Join(pairs, ", "), labels["kubernetes.io/arch"], s.kernel, s.image))
	}
	return `{"kind": "NodeList", "items": [` + strings.Join(items, ",\n") + `]}`
}

var poolName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$`)

// TestAnyFleet: whatever the labels are, each node has one place, and selectors choose exactly what they
// should; the order of the nodes changes nothing; nodes like those that are there change no values.
func TestAnyFleet(t *testing.T) {
	t.Parallel()
	m := rows(t)
	rapid.Check(t, func(rt *rapid.T) {
		all, err := nodes.Read(strings.NewReader(drawList(rt)))
		if err != nil {
			rt.Fatal(err)
		}
		o := fleet.Options{At: at, Precompiled: rapid.Bool().Draw(rt, "precompiled")}
		decide := func(all []nodes.Node) (*fleet.Plan, string) {
			p, err := fleet.Decide(m, all, o)
			if err != nil {
				rt.Fatal(err)
			}
			var values strings.Builder
			if err := p.WriteValues(&values, "h.example/a"); err != nil && len(p.Pools) > 0 {
				rt.Fatal(err)
			}
			return p, values.String()
		}
		p, values := decide(all)
		names := map[string]bool{}
		for _, pool := range p.Pools {
			if names[pool.Name] || !poolName.MatchString(pool.Name) || pool.Name == "default" {
				rt.Errorf("the name %q", pool.Name)
			}
			names[pool.Name] = true
		}
		failed := &failures{TB: t}
		checkPlan(failed, all, p)
		if failed.any {
			rt.Fatalf("see above: %+v", all)
		}
		turned := slices.Clone(all)
		slices.Reverse(turned)
		if _, other := decide(turned); other != values {
			rt.Errorf("another order of the nodes gives other values:\n%s\n%s", values, other)
		}
		more := slices.Clone(all)
		for _, n := range all {
			n.Name = "zz-" + n.Name
			more = append(more, n)
		}
		if _, other := decide(more); other != values {
			rt.Errorf("more nodes of the same kinds give other values:\n%s\n%s", values, other)
		}
	})
}

// failures notes that something was wrong, so that the property fails too and is made smaller.
type failures struct {
	testing.TB
	any bool
}

// Errorf is that of testing.TB.
func (f *failures) Errorf(string, ...any) { f.any = true }

// TestNamesStay: a name does not change when nodes with other needs come, nor when another driver is chosen.
func TestNamesStay(t *testing.T) {
	t.Parallel()
	all := read(t, "kubeadm.json")
	find := func(p *fleet.Plan, node string) string {
		i := slices.IndexFunc(p.Pools, func(pool fleet.Pool) bool { return slices.Contains(pool.Nodes, node) })
		if i < 0 {
			return ""
		}
		return p.Pools[i].Name
	}
	whole, err := fleet.Decide(rows(t), all, fleet.Options{At: at})
	assert.NoError(t, err)
	for _, n := range all {
		want := find(whole, n.Name)
		if want == "" {
			continue
		}
		alone, err := fleet.Decide(rows(t), []nodes.Node{n}, fleet.Options{At: at})
		assert.NoError(t, err)
		assert.Equalf(t, want, find(alone, n.Name), "the pool of %s, alone", n.Name)
		other, err := fleet.Decide(rows(t), all, fleet.Options{At: at, Drivers: []string{"470.256.02", "535.309.01", "610.57.04"}})
		assert.NoError(t, err)
		if got := find(other, n.Name); got != "" {
			assert.Equalf(t, want, got, "the pool of %s, with other drivers", n.Name)
		}
	}
}
