package nfd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/gpus"
)

// device is a PCI device: vendor, number and class as sysfs has them.
type device struct{ vendor, number, class string }

func gpu(number string) device { return device{"0x10de", "0x" + number, "0x030200"} }

// labelled is a node and its labels: generation, last branch (- for none), modules; "" for no labels.
type labelled struct {
	devices []device
	want    string
}

// known are nodes whose labels are known from elsewhere, of every generation, alone and mixed.
var known = map[string]labelled{
	"fermi":                    {[]device{gpu("06c0")}, "fermi R390 proprietary"},
	"kepler":                   {[]device{gpu("102d")}, "kepler R470 proprietary"},
	"grid-k1":                  {[]device{gpu("0ff2")}, "kepler none none"},
	"maxwell":                  {[]device{gpu("13f2")}, "maxwell R580 proprietary"},
	"pascal":                   {[]device{gpu("15f8")}, "pascal R580 proprietary"},
	"volta":                    {[]device{gpu("1db1")}, "volta R580 proprietary"},
	"turing":                   {[]device{gpu("1eb8")}, "turing - any"},
	"ampere":                   {[]device{gpu("20b0")}, "ampere - any"},
	"ada":                      {[]device{gpu("27b8")}, "ada - any"},
	"hopper":                   {[]device{gpu("2331")}, "hopper - any"},
	"grace":                    {[]device{gpu("2342")}, "hopper - open"},
	"blackwell":                {[]device{gpu("2901"), gpu("2901")}, "blackwell - open"},
	"new":                      {[]device{gpu("fffe")}, "unknown - open"},
	"vga":                      {[]device{{"0x10de", "0x1eb8", "0x030000"}}, "turing - any"},
	"no-gpu":                   {nil, ""},
	"other-vendor":             {[]device{{"0x1002", "0x1eb8", "0x030000"}}, ""},
	"audio":                    {[]device{{"0x10de", "0x1eb8", "0x040300"}, {"0x8086", "0x0412", "0x030000"}}, ""},
	"display-and-compute":      {[]device{gpu("1eb8"), gpu("0191")}, "turing - any"}, // the old one has no driver
	"volta-and-ampere":         {[]device{gpu("20b0"), gpu("1db1")}, "volta R580 proprietary"},
	"turing-and-blackwell":     {[]device{gpu("2901"), gpu("1eb8")}, "turing - open"},
	"kepler-and-ada-conflict":  {[]device{gpu("102d"), gpu("27b8")}, "kepler none none"},
	"volta-blackwell-conflict": {[]device{gpu("1db1"), gpu("2901")}, "volta none none"},
}

// TestRealNFD: NFD's own PCI source and rule engine label nodes as package gpulist says, for every GPU of the list
// and for mixed nodes.
func TestRealNFD(t *testing.T) {
	tool.Real(t, "Node Feature Discovery is built from source")
	nodes := maps.Clone(known)
	for _, g := range gpus.All() {
		number := fmt.Sprintf("%04x", g.Device)
		want := fmt.Sprintf("%s %s %s", strings.ToLower(g.Generation), cmp.Or(g.Last(), "-"), g.Modules())
		nodes["gpu-"+number] = labelled{[]device{gpu(number)}, want}
	}
	labels := label(t, program(t), true, "", nodes)
	for name, n := range nodes {
		l := labels[name]
		got := ""
		if len(l) > 0 {
			got = fmt.Sprintf("%s %s %s", l["nvidia.com/gpu.generation"], cmp.Or(l["nvidia.com/driver.last-branch"], "-"), l["nvidia.com/driver.modules"])
		}
		assert.Equalf(t, n.want, got, "labels of %s", name)
		assert.Equalf(t, strings.HasSuffix(name, "-conflict"), l["nvidia.com/driver.conflict"] == "true", "conflict label of %s", name)
	}
}

// label returns the labels that NFD gives to nodes: by the rules about GPUs, if they are wanted, and with the
// configuration pci of its source of PCI devices, if there is one.
func label(t *testing.T, program string, withRules bool, pci string, nodes map[string]labelled) map[string]map[string]string {
	t.Helper()
	dir := t.TempDir()
	rules := bytes.NewBufferString("apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\n")
	if withRules {
		rules.Reset()
		require.NoError(t, gpus.Write(rules))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), rules.Bytes(), 0o644))
	args := []string{program, "rules.yaml", pci}
	for name, n := range nodes {
		for i, d := range n.devices {
			sysfs(t, filepath.Join(dir, name, fmt.Sprintf("bus/pci/devices/0000:%02x:00.0", i)), d)
		}
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name, "bus/pci/devices"), 0o755))
		args = append(args, name)
	}
	out := require.Value(tool.Run(t.Context(), dir, nil, args...))(t)
	var labels map[string]map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &labels))
	return labels
}

// program builds the program with NFD's code; Go's cache keeps the compiled packages.
func program(t *testing.T) string {
	t.Helper()
	root := require.Value(tool.Project())(t)
	path := filepath.Join(t.TempDir(), "labels")
	require.Value(tool.Run(t.Context(), filepath.Join(root, "ci/peers/nfd/testdata/labels"), []string{"CGO_ENABLED=0"},
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "."))(t)
	return path
}

// sysfs makes the files of a device that NFD reads.
func sysfs(t *testing.T, dir string, d device) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, text := range map[string]string{
		"vendor": d.vendor, "device": d.number, "class": d.class, "subsystem_vendor": d.vendor, "subsystem_device": "0x0000",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644))
	}
}
