package fleet_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/fleet"
)

const (
	ubuntu, debian = "Ubuntu 22.04.5 LTS", "Debian GNU/Linux 12 (bookworm)"
	aks            = "accelerator=nvidia agentpool=a"
	gke            = "cloud.google.com/gke-accelerator=nvidia-tesla-t4 cloud.google.com/gke-nodepool=b"
)

// ubuntuNode is a node of Ubuntu 22.04 with labels of node feature discovery, and others: a device, or key=value.
func ubuntuNode(name string, more ...string) string {
	labels := map[string]string{"kubernetes.io/arch": "amd64", nfd + "pci-10de.present": "true"}
	discover(labels, "ubuntu", "22.04", "5.15.0-122-generic")
	for _, label := range more {
		if key, value, ok := strings.Cut(label, "="); ok {
			labels[key] = value
		} else {
			labels[nfd+"pci-0302_10de_"+label+".present"] = "true"
		}
	}
	return item(name, labels, "5.15.0-122-generic", ubuntu)
}

// talosNode is a node of Talos with a Tesla T4 and the labels of its extensions.
func talosNode(name string, extensions ...string) string {
	labels := map[string]string{"kubernetes.io/arch": "amd64", nfd + "pci-0302_10de_1eb8.present": "true", nfd + "pci-10de.present": "true"}
	discover(labels, "talos", "v1.13.6", "6.18.9-talos")
	for _, extension := range extensions {
		key, value, _ := strings.Cut(extension, "=")
		if !strings.Contains(key, "/") {
			key = talos + key
		}
		labels[key] = value
	}
	return item(name, labels, "6.18.9-talos", "Talos (v1.13.6)")
}

// bareNode is a node without node feature discovery.
func bareNode(name, labels, image string) string {
	all := map[string]string{"kubernetes.io/arch": "amd64"}
	for label := range strings.FieldsSeq(labels) {
		key, value, _ := strings.Cut(label, "=")
		all[key] = value
	}
	return item(name, all, "5.15.0-122-generic", image)
}

// TestApart: labels tell some nodes apart, and the others get a reason. The answer has each node's pool, or the code
// of its reason.
func TestApart(t *testing.T) {
	t.Parallel()
	const product, host = "nvidia.com/gpu.product=", fleet.LabelHostModules + "="
	for name, c := range map[string]struct {
		nodes []string
		want  map[string]string
		text  string // part of the last reason
	}{
		"by device": {
			[]string{ubuntuNode("t4-1", "1eb8", product+"Tesla-T4"), ubuntuNode("t4-2", "1eb8"), ubuntuNode("k80", "102d")},
			map[string]string{"t4-1": "ubuntu2204", "t4-2": "ubuntu2204", "k80": "ubuntu2204-r470"}, "",
		},
		"beside a driver of the host's": {
			[]string{ubuntuNode("t4-1", "1eb8"), ubuntuNode("t4-2", "1eb8", "nvidia.com/gpu.deploy.driver=pre-installed")},
			map[string]string{"t4-1": "ubuntu2204", "t4-2": fleet.HostDriver}, "its system has a driver already",
		},
		"one lacks the label": {
			[]string{ubuntuNode("t4-1", product+"Tesla-T4"), ubuntuNode("t4-2", product+"Tesla-T4"), ubuntuNode("k80", "102d")},
			map[string]string{"t4-1": "ubuntu2204", "t4-2": "ubuntu2204", "k80": "ubuntu2204-r470"}, "",
		},
		"one is not known": {
			[]string{ubuntuNode("t4", "1eb8"), ubuntuNode("k80", "102d"), ubuntuNode("what")},
			map[string]string{"t4": "ubuntu2204", "k80": "ubuntu2204-r470", "what": fleet.Alike},
			"no label tells nodes like what (unknown: driver 595.91.07 for ubuntu22.04) from nodes like k80 (Tesla K80: driver 470.256.02 for ubuntu22.04): let node feature discovery label the devices",
		},
		"modules differ": {
			[]string{ubuntuNode("a10", product+"NVIDIA-A10"), ubuntuNode("what"), ubuntuNode("rtx", "2b85")},
			map[string]string{"a10": "ubuntu2204", "what": fleet.Alike, "rtx": "ubuntu2204-open"},
			"like what (unknown: driver 595.91.07 for ubuntu22.04) from nodes like rtx (NVIDIA GeForce RTX 5090: driver 595.91.07 for ubuntu22.04, only with open modules)",
		},
		"a driver without a GPU": {
			[]string{ubuntuNode("t4", "1eb8"), ubuntuNode("gone", nfd+"pci-10de.present=false", "nvidia.com/driver.version.full=595.91.07")},
			map[string]string{"t4": "ubuntu2204", "gone": fleet.NotLabelled}, "its labels name driver 595.91.07, and none says that it has a GPU",
		},
		"no label with the system": {
			[]string{bareNode("sles", nfd+"pci-10de.present=true", "SUSE Linux Enterprise Server 15 SP5")},
			map[string]string{"sles": fleet.NotLabelled}, "no label says which system it has, so its pool would take every new node",
		},
		"a node of two clouds": {
			[]string{bareNode("azure", aks, ubuntu), bareNode("both", aks+" "+gke, ubuntu), bareNode("google", gke, ubuntu)},
			map[string]string{"azure": "ubuntu2204-dae448", "both": "ubuntu2204-dae448", "google": fleet.NotLabelled}, "to tell it from both, which is in another pool",
		},
		"a node of two clouds, another system": {
			[]string{bareNode("azure", aks, ubuntu), bareNode("a-both", aks+" "+gke, ubuntu), bareNode("google", gke, debian)},
			map[string]string{"azure": "ubuntu2204-dae448", "a-both": "ubuntu2204-dae448", "google": fleet.Alike},
			"like google (T4: driver 595.91.07 for debian12) from nodes like a-both (T4: driver 595.91.07 for ubuntu22.04)",
		},
		"modules of the system": {
			[]string{
				talosNode("open", "nvidia-open-gpu-kernel-modules-production=595.91.07-v1.13.6"), talosNode("old", "nonfree-kmod-nvidia-lts=535.309.01-v1.12.1"),
				talosNode("whole", "nvidia-open-gpu-kernel-modules-lts=595.91.07-v1.13.6", "nvidia-container-toolkit-lts=595.91.07-v1.19.1"),
			},
			map[string]string{"open": "host-r595-395501", "old": "host-r535-2c7d21", "whole": fleet.OwnWay}, "add the system extensions",
		},
		"modules of the system for another GPU": {
			[]string{talosNode("closed", "nonfree-kmod-nvidia-production=595.91.07-v1.13.6", nfd+"pci-0302_10de_2b85.present=true")},
			map[string]string{"closed": fleet.GPUUnsupported}, "driver 595.91.07, whose modules its system loads, does not drive its GPU (Tesla T4, NVIDIA GeForce RTX 5090)",
		},
		"modules of a driver that the matrix lacks": {
			[]string{talosNode("open", "nvidia-open-gpu-kernel-modules=999.1-v1.13.6")},
			map[string]string{"open": fleet.NoDriver}, "modules of driver 999.1, and none of the drivers that may be chosen for amd64 is that one",
		},
		"modules of the system, by a label of ours": {
			[]string{
				ubuntuNode("own", "1eb8", host+"none"), ubuntuNode("host", "1eb8", host+"535.309.01"), ubuntuNode("what", "1eb8"),
			},
			map[string]string{"own": "ubuntu2204", "host": "host-r535-649094", "what": fleet.Alike}, "no label tells nodes like what",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := parse(t, c.nodes)
			p := require.Value(fleet.Recommend(rows(t), all, fleet.Options{Advisor: advisor}))(t)
			checkPlan(t, all, p)
			got := poolsOf(p)
			for _, w := range p.Without {
				for _, n := range w.Nodes {
					got[n] = w.Code
				}
				assert.Containsf(t, w.Reason, c.text, "the reason of %v", w.Nodes)
			}
			assert.Same(t, c.want, got)
			assert.Equalf(t, len(p.Unserved()) == 0, p.CheckServed(nil) == nil, "every node is served")
		})
	}
}

// TestHint: a card that keeps a server at an old driver is named, and what Fedora CoreOS needs besides Fedora's image.
func TestHint(t *testing.T) {
	t.Parallel()
	p := require.Value(fleet.Recommend(rows(t), parse(t, []string{ubuntuNode("one", "20b0", "128b"), ubuntuNode("two", "20b0", "128b"), ubuntuNode("three", "20b0")}), fleet.Options{Advisor: advisor}))(t)
	assert.Equalf(t, "[{NVIDIA A100-SXM4-40GB gets driver 470.256.02 because of GeForce GT 710: without it, driver 595.91.07 [one two]}]", fmt.Sprint(p.Hints), "hints")
	assert.Same(t, []string{"ubuntu2204-r470-hgx"}, slices.Compact(slices.Sorted(maps.Values(poolsOf(p)))))

	labels := map[string]string{"kubernetes.io/arch": "amd64", nfd + "pci-0302_10de_1eb8.present": "true", nfd + "pci-10de.present": "true"}
	discover(labels, "fedora", "43", "6.17.7-300.fc43.x86_64")
	coreOS := item("coreos", labels, "6.17.7-300.fc43.x86_64", "Fedora CoreOS 43.20251120.3.0")
	p = require.Value(fleet.Recommend(rows(t), parse(t, []string{coreOS}), fleet.Options{Advisor: advisor}))(t)
	assert.Same(t, map[string]string{"coreos": "fedora43"}, poolsOf(p))
	assert.Containsf(t, fmt.Sprint(p.Hints), "package fedora-repos-archive", "hints")
}
