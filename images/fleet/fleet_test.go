package fleet_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/fleet"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// at is a time at which R535 is over, R580 and R595 are supported, and R610 is a branch with new features.
var (
	at      = time.Date(2026, 7, 15, 0, 0, 0, 0, time.UTC)
	advisor = releases.Advisor{Day: at}
)

// rows is the matrix of the tests.
func rows(t testing.TB) *matrix.Matrix {
	t.Helper()
	const file = "testdata/matrix.yaml"
	text := require.Value(os.ReadFile(file))(t)
	return require.Value(matrix.Parse(file, text))(t)
}

func read(t testing.TB, name string) []fleet.Node {
	t.Helper()
	f := require.Value(os.Open(filepath.Join("testdata", name)))(t)
	defer f.Close()
	return require.Value(fleet.ReadNodes(f))(t)
}

// TestRecorded decides about node lists of the shapes that clouds and distributions have.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"eks", "gke", "aks", "openshift", "kubeadm", "devices", "joined"} {
		for kind, o := range map[string]fleet.Options{"": {Advisor: advisor}, "-precompiled": {Advisor: advisor, Precompiled: true}} {
			t.Run(name+kind, func(t *testing.T) {
				t.Parallel()
				all := read(t, name+".json")
				p := require.Value(fleet.Recommend(rows(t), all, o))(t)
				checkPlan(t, all, p)
				text := require.Value(json.MarshalIndent(p, "", "  "))(t)
				goldentest.Compare(t, "testdata/golden/"+name+kind+".json", string(text)+"\n")
				var values bytes.Buffer
				err := p.WriteValues(&values, "registry.example.com/gpu/driver")
				assert.Equalf(t, len(p.Pools) == 0, err != nil, "%v", err)
				goldentest.Compare(t, "testdata/golden/"+name+kind+".yaml", values.String())
			})
		}
	}
}

// TestHosts decides about hosts without a cluster: images and reasons, no pools.
func TestHosts(t *testing.T) {
	t.Parallel()
	all := read(t, "hosts.txt")
	p := require.Value(fleet.Recommend(rows(t), all, fleet.Options{Advisor: advisor}))(t)
	checkPlan(t, all, p)
	goldentest.Compare(t, "testdata/golden/hosts.json", string(require.Value(json.MarshalIndent(p, "", "  "))(t))+"\n")
	assert.Equalf(t, 0, len(p.Pools), "pools")
	assert.Equal(t, failure.Some, failure.KindOf(p.WriteValues(&bytes.Buffer{}, "")))
}

// checkPlan checks what every plan promises: each machine has an image or a reason, and the pools' selectors
// choose exactly the nodes that they are for. It evaluates selectors as a scheduler does, with the labels of
// the list.
func checkPlan(t rapid.TB, all []fleet.Node, p *fleet.Recommendation) {
	t.Helper()
	places := map[string][]string{}
	for _, im := range p.Images {
		for _, n := range im.Nodes {
			if strings.HasSuffix(im.Tag, "-modules") { // beside the driver's
				continue
			}
			places[n] = append(places[n], "image "+im.Tag)
		}
	}
	for _, w := range p.Without {
		for _, n := range w.Nodes {
			places[n] = append(places[n], "without "+w.Code)
		}
	}
	assigned := map[string]string{}
	for _, pool := range p.Pools {
		for _, n := range pool.Nodes {
			if other, twice := assigned[n]; twice {
				t.Errorf("%s is in the pools %s and %s", n, other, pool.Name)
			}
			assigned[n] = pool.Name
		}
	}
	for _, n := range all {
		if len(places[n.Name]) != 1 {
			t.Errorf("%s has the places %v", n.Name, places[n.Name])
		}
		var chosen []string
		for _, pool := range p.Pools {
			if chooses(p, pool, n) {
				chosen = append(chosen, pool.Name)
			}
		}
		if want := assigned[n.Name]; strings.Join(chosen, " ") != want {
			t.Errorf("the pools %v choose %s, which is in %q", chosen, n.Name, want)
		}
		if n.Labels != nil && strings.HasPrefix(strings.Join(places[n.Name], ""), "image") != (assigned[n.Name] != "") {
			t.Errorf("%s has %v and the pool %q", n.Name, places[n.Name], assigned[n.Name])
		}
	}
}

// chooses evaluates a pool's selector and the chart's affinity.
func chooses(p *fleet.Recommendation, pool fleet.Pool, n fleet.Node) bool {
	if n.Labels == nil {
		return false
	}
	has := func(labels map[string]string) bool {
		for key, value := range labels {
			if got, ok := n.Labels[key]; !ok || got != value {
				return false
			}
		}
		return true
	}
	return has(pool.NodeSelector) && (len(pool.AnyOf) == 0 || slices.ContainsFunc(pool.AnyOf, has)) && p.ByChart(n.Labels)
}

// TestGPUs: what GPUs need by their number, their name, or the labels of driver-build gpus. What is in no list gets
// the newest driver with the open modules, and a warning.
func TestGPUs(t *testing.T) {
	t.Parallel()
	device := func(number string) string {
		return `"feature.node.kubernetes.io/pci-0302_10de_` + number + `.present": "true"`
	}
	m := rows(t)
	release := require.Value(releases.RequireCUDA(m, "12.0"))(t)
	for label, want := range map[string]string{
		`"nvidia.com/driver.last-branch": "R580"`:                                             "ubuntu2204-r580 580.173.02 ",
		`"nvidia.com/driver.last-branch": "none"`:                                             "no driver drives all of its GPUs, say its labels (nvidia.com/driver.last-branch=none)",
		`"nvidia.com/driver.last-branch": "R470", "nvidia.com/driver.modules": "proprietary"`: "ubuntu2204-r470 470.256.02 ",
		`"nvidia.com/driver.modules": "any"`:                                                  "ubuntu2204 595.91.07 ",
		`"nvidia.com/driver.modules": "open", "nvidia.com/gpu.generation": "blackwell"`:       "ubuntu2204-open 595.91.07 open",
		device("1eb8"): "ubuntu2204 595.91.07 ", device("3182"): "ubuntu2204-open-hgx 595.91.07 open",
		device("3041"): "ubuntu2204-new 610.57.04 open 10de:3041 of a is not in the list", device("3041") + "," + device("1eb8"): "ubuntu2204-new 610.57.04 open 10de:3041 of a is not in the list",
		`"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-5090-Laptop-GPU"`: "ubuntu2204-open 595.91.07 open", `"nvidia.com/gpu.product": "NVIDIA-A800-40GB-PCIe"`: "ubuntu2204 595.91.07 ",
		`"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB-SHARED"`: "ubuntu2204-r580 580.173.02 proprietary",
		device("102d") + `, "cuda": ""`:                           "no driver for ubuntu22.04 that runs CUDA 12.0 drives its GPU (Tesla K80): driver 595.91.07 does not drive Tesla K80 (10de:102d): R470 is the last branch that drives it",
		`"nvidia.com/gpu.product": "NVIDIA-Q9000"`:                "ubuntu2204-new 610.57.04 open NVIDIA-Q9000 of a is not in the list",
	} {
		text := `{"kind": "NodeList", "items": [{"metadata": {"name": "a", "labels": {"kubernetes.io/arch": "amd64", "nvidia.com/gpu.present": "true", ` + label + `,
			"feature.node.kubernetes.io/system-os_release.ID": "ubuntu", "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04"}},
			"status": {"nodeInfo": {"architecture": "amd64", "kernelVersion": "5.15.0-122-generic", "osImage": "Ubuntu 22.04.5 LTS"}}}]}`
		all := require.Value(fleet.ReadNodes(strings.NewReader(text)))(t)
		o := fleet.Options{Advisor: advisor}
		if strings.Contains(label, "cuda") {
			o.CUDA = &release
		}
		p := require.Value(fleet.Recommend(m, all, o))(t)
		checkPlan(t, all, p)
		got := ""
		if len(p.Pools) == 1 {
			got = p.Pools[0].Name + " " + p.Pools[0].Driver + " " + p.Pools[0].KernelModuleType
			for _, w := range p.Warnings {
				first, _, _ := strings.Cut(w, ",")
				got += " " + first
			}
		} else {
			got = p.Without[0].Reason
		}
		assert.Equalf(t, want, got, "%s", label)
	}
}

// TestRuntimes: nodes whose container runtime is known not to read zstd are named.
func TestRuntimes(t *testing.T) {
	t.Parallel()
	var items []string
	for i, version := range []string{
		"containerd://1.4.13", "containerd://1.5.0", "containerd://2.1.4", "containerd://1.6.20~ds1", "docker://20.10.7", "docker://23.0.0-rc.1", "docker://28.1.1",
		"cri-o://1.23.1", "other://0.1", "", "containerd://1.4.13",
	} {
		items = append(items, strings.Replace(ubuntuNode(fmt.Sprintf("n%d", i), "1eb8"), `"osImage"`, `"containerRuntimeVersion": "`+version+`", "osImage"`, 1))
	}
	p := require.Value(fleet.Recommend(rows(t), parse(t, items), fleet.Options{Advisor: advisor}))(t)
	assert.Samef(t, []string{
		"containerd://1.4.13 of n0, n10 does not read images of --compression zstd: give them images of --compression gzip",
		"docker://20.10.7 of n4 does not read images of --compression zstd: give them images of --compression gzip",
	}, p.Warnings, "warnings")
}

// TestOptions restricts what may be chosen.
func TestOptions(t *testing.T) {
	t.Parallel()
	m := rows(t)
	t4 := read(t, "kubeadm.json")
	t4 = slices.DeleteFunc(t4, func(n fleet.Node) bool { return n.Name != "deb-t4-1" })
	for name, c := range map[string]struct {
		o         fleet.Options
		want, why string // tag, or reason
	}{
		"the newest branch for production":      {fleet.Options{Advisor: advisor}, "595.91.07-debian12", ""},
		"one that may be chosen":                {fleet.Options{Advisor: advisor, Drivers: []string{"580.173.02"}}, "580.173.02-debian12", ""},
		"the best of those that may be chosen":  {fleet.Options{Advisor: advisor, Drivers: []string{"470.256.02", "535.309.01", "610.57.04"}}, "610.57.04-debian12", ""},
		"after the end of all branches":         {fleet.Options{Advisor: releases.Advisor{Day: at.AddDate(5, 0, 0)}}, "610.57.04-debian12", ""},
		"the open modules of an old driver":     {fleet.Options{Advisor: advisor, Drivers: []string{"470.256.02"}, Flavours: []string{"open"}}, "", "of the drivers that may be chosen, none is made for debian12 on amd64"},
		"the proprietary modules of a new one":  {fleet.Options{Advisor: advisor, Flavours: []string{"proprietary"}}, "595.91.07-debian12", ""},
		"precompiled: the kernel is in the tag": {fleet.Options{Advisor: advisor, Precompiled: true}, "595.91.07-6.1.0-56-amd64-debian12", ""},
		"modules beside: the image of them":     {fleet.Options{Advisor: advisor, Beside: true}, "595.91.07-6.1.0-56-amd64-debian12-modules", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := require.Value(fleet.Recommend(m, t4, c.o))(t)
			checkPlan(t, t4, p)
			tag, why := "", ""
			if len(p.Images) > 0 {
				tag = p.Images[0].Tag
			}
			if len(p.Without) > 0 {
				why = p.Without[0].Reason
			}
			assert.Equalf(t, c.want, tag, "the image")
			assert.Equalf(t, c.why, why, "the reason")
		})
	}
	for version, want := range map[string]string{"12.0": "535.309.01-debian12", "13.0": "of the drivers that may be chosen, none that runs CUDA 13.0 is made for debian12 on amd64"} {
		release := require.Value(releases.RequireCUDA(rows(t), version))(t)
		p := require.Value(fleet.Recommend(m, t4, fleet.Options{Advisor: advisor, CUDA: &release, Drivers: []string{"470.256.02", "535.309.01"}}))(t)
		got := ""
		if len(p.Images) > 0 {
			got = p.Images[0].Tag
		} else {
			got = p.Without[0].Reason
		}
		assert.Equalf(t, want, got, "CUDA %s", version)
	}
	_, err := fleet.Recommend(m, t4, fleet.Options{Advisor: advisor, Drivers: []string{"1.2.3"}})
	assert.ErrorContains(t, err, `1.2.3`)
}
