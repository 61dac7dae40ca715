package fleet_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/fleet"
)

const nfd, talos = "feature.node.kubernetes.io/", "extensions.talos.dev/"

// machines are what nodes of a fleet are: system and kernel.
var machines = []struct{ id, version, image, kernel string }{
	{"ubuntu", "22.04", "Ubuntu 22.04.5 LTS", "5.15.0-122-generic"}, {"ubuntu", "22.04", "Ubuntu 22.04.5 LTS", "6.8.0-60-generic"},
	{"debian", "12", "Debian GNU/Linux 12 (bookworm)", "6.1.0-56-amd64"}, {"debian", "12", "Debian GNU/Linux 12 (bookworm)", "7.9.1"},
	{"rocky", "9.4", "Rocky Linux 9.4 (Blue Onyx)", "5.14.0-427.42.1.el9_4.x86_64"}, {"rocky", "9.5", "Rocky Linux 9.5 (Blue Onyx)", "5.14.0-503.40.1.el9_5.x86_64"},
	{"cos", "121", "Container-Optimized OS from Google", "6.6.93+"}, {"flatcar", "4081.2.0", "Flatcar Container Linux by Kinvolk 4081.2.0 (Oklo)", "6.6.60-flatcar"},
	{"talos", "v1.13.6", "Talos (v1.13.6)", "6.18.9-talos"},
}

// deviceNumbers are a Tesla T4, K80, V100 and P4, an RTX 5090, a GPU that no driver of the matrix drives, and one that is not in
// the list.
var deviceNumbers = []string{"1eb8", "102d", "1db1", "1bb3", "2b85", "06d1", "ffff"}

// drawNodes draws nodes whose labels contradict each other, or lack, as in real clusters.
func drawNodes(t *rapid.T, name string, most int) []fleet.Node {
	discovery := rapid.IntRange(0, 3).Draw(t, "node feature discovery") > 0
	var items []string
	for i := range rapid.IntRange(0, most).Draw(t, "nodes") {
		s := rapid.SampledFrom(machines).Draw(t, "system")
		labels := map[string]string{"kubernetes.io/arch": rapid.SampledFrom([]string{"amd64", "amd64", "amd64", "arm64"}).Draw(t, "arch")}
		maybe := func(key string, values ...string) {
			if v := rapid.SampledFrom(append(values, "")).Draw(t, key); v != "" {
				labels[key] = v
			}
		}
		if discovery && rapid.IntRange(0, 5).Draw(t, "labelled") > 0 {
			discover(labels, s.id, s.version, s.kernel)
			maybe(nfd+"pci-0302_10de.present", "true", "true", "true")
			if rapid.IntRange(0, 3).Draw(t, "major") == 0 {
				delete(labels, nfd+"system-os_release.VERSION_ID.major")
			}
		}
		maybe(nfd+"pci-0302_10de_"+rapid.SampledFrom(deviceNumbers).Draw(t, "gpu")+".present", "true", "true")
		maybe(nfd+"pci-0302_10de_2330.present", "true")
		maybe("nvidia.com/driver.last-branch", "R470", "R580", "R390")
		maybe("nvidia.com/driver.version.full", "595.91.07", "")
		maybe("nvidia.com/gpu.deploy.driver", "pre-installed")
		maybe("nvidia.com/gpu.product", "Tesla-T4", "Tesla-K80")
		maybe("cloud.google.com/gke-accelerator", "nvidia-l4", "nvidia-tesla-t4")
		maybe("cloud.google.com/gke-nodepool", "a", "b")
		maybe("accelerator", "nvidia")
		maybe("nvidia.com/gpu.present", "true", "")
		maybe("eks.amazonaws.com/nodegroup", "a", "", "")
		maybe("cloud.google.com/gke-gpu-driver-version", "default", "", "")
		maybe(fleet.LabelHostModules, "595.91.07", "none", "", "")
		if s.id == "talos" {
			maybe(talos+"nvidia-open-gpu-kernel-modules-lts", "595.91.07-v1.13.6", "470.256.02-v1.12.0")
			maybe(talos+"nvidia-container-toolkit-lts", "595.91.07-v1.17.8", "", "")
		}
		maybe("node.kubernetes.io/instance-type", "large", "small")
		items = append(items, item(fmt.Sprintf("%s%d", name, i), labels, s.kernel, s.image))
	}
	return parse(t, items)
}

// drawLabelled draws nodes with all labels of node feature discovery, as docs/fleet.md configures it.
func drawLabelled(t *rapid.T, name string, most int) []fleet.Node {
	var items []string
	for i := range rapid.IntRange(1, most).Draw(t, "nodes") {
		s := rapid.SampledFrom(machines).Draw(t, "system")
		labels := map[string]string{"kubernetes.io/arch": "amd64", nfd + "pci-0302_10de.present": "true"}
		discover(labels, s.id, s.version, s.kernel)
		labels[nfd+"pci-0302_10de_"+rapid.SampledFrom(deviceNumbers).Draw(t, "gpu")+".present"] = "true"
		if rapid.Bool().Draw(t, "a driver runs") {
			labels["nvidia.com/gpu.product"] = "a-GPU"
		}
		items = append(items, item(fmt.Sprintf("%s%d", name, i), labels, s.kernel, s.image))
	}
	return parse(t, items)
}

// discover adds what node feature discovery says of a system.
func discover(labels map[string]string, id, version, kernel string) {
	labels[nfd+"system-os_release.ID"], labels[nfd+"system-os_release.VERSION_ID"] = id, version
	labels[nfd+"system-os_release.VERSION_ID.major"], _, _ = strings.Cut(version, ".")
	labels[nfd+"kernel-version.full"] = strings.TrimRight(kernel, "+")
	series := strings.Split(kernel, ".")
	labels[nfd+"kernel-version.major"], labels[nfd+"kernel-version.minor"] = series[0], series[1]
}

// item is a node in JSON.
func item(name string, labels map[string]string, kernel, image string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, fmt.Sprintf("%q: %q", key, labels[key]))
	}
	return fmt.Sprintf(`{"metadata": {"name": %q, "labels": {%s}}, "status": {"nodeInfo": {"architecture": %q, "kernelVersion": %q, "osImage": %q}}}`,
		name, strings.Join(pairs, ", "), labels["kubernetes.io/arch"], kernel, image)
}

func parse(t rapid.TB, items []string) []fleet.Node {
	t.Helper()
	all, err := fleet.ReadNodes(strings.NewReader(`{"kind": "NodeList", "items": [` + strings.Join(items, ",\n") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// poolsOf returns the pool of each node that has one.
func poolsOf(p *fleet.Recommendation) map[string]string {
	pools := map[string]string{}
	for _, pool := range p.Pools {
		for _, n := range pool.Nodes {
			pools[n] = pool.Name
		}
	}
	return pools
}

// TestJoins: a node that had a pool keeps one when others join, or it is named as one that gets nothing, which no
// format passes over. With the labels of docs/fleet.md it keeps one whoever joins.
func TestJoins(t *testing.T) {
	t.Parallel()
	m := rows(t)
	for name, draw := range map[string]struct {
		here, newcomers func(*rapid.T, string, int) []fleet.Node
		keeps           bool
	}{"any labels": {drawNodes, drawNodes, false}, "all labels": {drawLabelled, drawLabelled, true}} {
		t.Run(name, rapid.MakeCheck(func(rt *rapid.T) {
			o := fleet.Options{Advisor: advisor, Precompiled: rapid.Bool().Draw(rt, "precompiled")}
			here := draw.here(rt, "here", 10)
			before := require.Value(fleet.Recommend(m, here, o))(rt)
			all := append(here, draw.newcomers(rt, "new", 3)...)
			after := require.Value(fleet.Recommend(m, all, o))(rt)
			checkPlan(rt, all, after)
			pools := poolsOf(after)
			for n := range poolsOf(before) {
				named := slices.ContainsFunc(after.Unserved(), func(w fleet.Without) bool { return slices.Contains(w.Nodes, n) })
				if pools[n] == "" && (draw.keeps || !named || after.CheckServed(nil) == nil) {
					rt.Errorf("%s loses its driver: %+v", n, after.Without)
				}
			}
		}))
	}
}

// noMachines are nodes that have no GPU: simulated ones, those of a virtual kubelet, and those whose report is damaged.
var noMachines = []string{
	`{"metadata": {"name": "virtual-node-aci-linux", "labels": {"type": "virtual-kubelet", "kubernetes.io/arch": "amd64"}}, "status": {"nodeInfo": {"operatingSystem": "Linux"}}}`,
	`{"metadata": {"name": "virtual-node-eci", "labels": {"type": "virtual-kubelet"}}, "status": {"capacity": {"nvidia.com/gpu": "1000"}, "nodeInfo": {"architecture": "amd64"}}}`,
	`{"metadata": {"name": "kwok-0", "labels": {"type": "kwok", "nvidia.com/gpu.product": "NVIDIA-H100"}}, "status": {"capacity": {"nvidia.com/gpu": "8"}, "nodeInfo": {"kernelVersion": "fake"}}}`,
	`{"metadata": {"name": "kwok-1"}, "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]}, "status": {"capacity": {"nvidia.com/gpu": "8"}, "nodeInfo": {}}}`,
	`{"metadata": {"name": "no-kernel", "labels": {"kubernetes.io/arch": "amd64"}}, "status": {"nodeInfo": {"architecture": "amd64"}}}`,
	`{"metadata": {"name": "odd-kernel", "labels": {"feature.node.kubernetes.io/kernel-version.full": "6.1"}}, "status": {"nodeInfo": {"kernelVersion": "6.1 --push"}}}`,
	`{"metadata": {"name": "empty"}}`,
}

// TestNoMachines: a node without a sign of a GPU changes nothing of the others, whatever it reports: values and exit code are
// the same. One with a sign of a GPU does not go without a word.
func TestNoMachines(t *testing.T) {
	t.Parallel()
	m := rows(t)
	rapid.Check(t, func(rt *rapid.T) {
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(noMachines), 1, -1, rapid.ID).Draw(rt, "no machines")
		decide := func(all []fleet.Node) (p *fleet.Recommendation, values, unserved string) {
			p = require.Value(fleet.Recommend(m, all, fleet.Options{Advisor: advisor}))(rt)
			checkPlan(rt, all, p)
			var text strings.Builder
			err := p.WriteValues(&text, "h.example/a")
			if err != nil && len(p.Pools) > 0 {
				rt.Fatal(err)
			}
			return p, text.String(), fmt.Sprint(p.CheckServed(nil))
		}
		here := drawNodes(rt, "here", 8)
		_, values, unserved := decide(here)
		all := append(here, parse(rt, some)...)
		_, got, gotUnserved := decide(all)
		assert.Equalf(rt, values, got, "the values")
		assert.Equalf(rt, unserved, gotUnserved, "the exit code")

		damaged := `{"metadata": {"name": "damaged", "labels": {"nvidia.com/gpu.present": "true"}}, "status": {"nodeInfo": {}}}`
		p, _, _ := decide(append(all, parse(rt, []string{damaged})...))
		err := p.CheckServed(nil)
		if err == nil || !strings.Contains(err.Error(), fleet.BadReport) {
			rt.Errorf("a node with a GPU that reports no kernel: %v", err)
		}
		assert.NoErrorf(rt, p.CheckServed([]string{"all"}), "every reason is accepted")
	})
}

var poolName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$`)

// TestAnyFleet: whatever the labels are, each node has one place, and selectors choose exactly what they
// should; the order of the nodes changes nothing; nodes like those that are there change no values.
func TestAnyFleet(t *testing.T) {
	t.Parallel()
	m := rows(t)
	rapid.Check(t, func(rt *rapid.T) {
		all := drawNodes(rt, "n", 14)
		o := fleet.Options{Advisor: advisor, Precompiled: rapid.Bool().Draw(rt, "precompiled"), Managed: rapid.Bool().Draw(rt, "managed")}
		o.Beside = !o.Precompiled && rapid.Bool().Draw(rt, "modules beside")
		decide := func(all []fleet.Node) (*fleet.Recommendation, string) {
			p, err := fleet.Recommend(m, all, o)
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
		checkPlan(rt, all, p)
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

// TestNamesStay: a name does not change when nodes with other needs come, nor when another driver is chosen.
func TestNamesStay(t *testing.T) {
	t.Parallel()
	all := read(t, "kubeadm.json")
	find := func(p *fleet.Recommendation, node string) string {
		i := slices.IndexFunc(p.Pools, func(pool fleet.Pool) bool { return slices.Contains(pool.Nodes, node) })
		if i < 0 {
			return ""
		}
		return p.Pools[i].Name
	}
	whole, err := fleet.Recommend(rows(t), all, fleet.Options{Advisor: advisor})
	assert.NoError(t, err)
	for _, n := range all {
		want := find(whole, n.Name)
		if want == "" {
			continue
		}
		alone, err := fleet.Recommend(rows(t), []fleet.Node{n}, fleet.Options{Advisor: advisor})
		assert.NoError(t, err)
		assert.Equalf(t, want, find(alone, n.Name), "the pool of %s, alone", n.Name)
		other, err := fleet.Recommend(rows(t), all, fleet.Options{Advisor: advisor, Drivers: []string{"470.256.02", "535.309.01", "610.57.04"}})
		assert.NoError(t, err)
		if got := find(other, n.Name); got != "" {
			assert.Equalf(t, want, got, "the pool of %s, with other drivers", n.Name)
		}
	}
}
