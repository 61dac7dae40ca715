package fleet

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Labels of nodes.
const (
	LabelArch    = "kubernetes.io/arch"
	LabelArchOld = "beta.kubernetes.io/arch" // before 1.14

	nfd            = "feature.node.kubernetes.io/" // node feature discovery
	LabelOSID      = nfd + "system-os_release.ID"
	LabelOSVersion = nfd + "system-os_release.VERSION_ID"
	LabelOSMajor   = LabelOSVersion + ".major"

	LabelKernel      = nfd + "kernel-version.full"
	LabelKernelMajor = nfd + "kernel-version.major"
	LabelKernelMinor = nfd + "kernel-version.minor"
)

// kept says whether a label counts: for a decision, or because a selector may need it.
func kept(key string) bool {
	for _, prefix := range []string{"nvidia.com/", byDevice, nfd + "system-os_release.", nfd + "kernel-version."} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return key == LabelArch || key == LabelArchOld || slices.Contains(groups, key) || slices.Contains(cloudSystems, key) ||
		strings.HasPrefix(key, talosExtension+"n") || slices.Contains(instanceTypes, key) || slices.ContainsFunc(cloudGPUs, func(c cloudGPU) bool { return key == c.key })
}

// Presence says whether a node has a GPU.
type Presence int

// What labels say of GPUs.
const (
	Unknown Presence = iota // nothing has looked
	Absent
	Present
)

// GPUs is what is known of the GPUs of a machine.
type GPUs struct {
	Presence Presence
	// Label is a label that only nodes with a GPU have, with its value; "" if the chart's own rule finds the
	// node, and for hosts.
	Label   string
	Devices []uint16 // PCI numbers, rising; nil if they are not known
	Product string   // name of the GPUs, from GPU feature discovery or a cloud
	// Branch and Modules are what the rules of driver-build gpus put on the node: "R470", "open".
	Branch, Modules string
	HostDriver      bool   // the node has a driver that no container brought
	VGPU            bool   // the node is a virtual machine with a vGPU
	Machines        string // the virtual machines that get the GPUs, and no container does: "vm-passthrough"
}

// chartLabels are labels of which the chart wants one to be "true".
var chartLabels = []string{nfd + "pci-10de.present", nfd + "pci-0302_10de.present", nfd + "pci-0300_10de.present", "nvidia.com/gpu.present"}

// HasChartLabel reports whether a node has a label by which the chart finds nodes with a GPU.
func HasChartLabel(labels map[string]string) bool {
	return slices.ContainsFunc(chartLabels, func(key string) bool { return labels[key] == "true" })
}

// labelWorkload is a label of the GPU Operator: what the GPUs of a node are for.
const labelWorkload = "nvidia.com/gpu.workload.config"

// forMachines are its values for virtual machines. The chart's pods stay off such nodes.
var forMachines = []string{"vm-passthrough", "vm-vgpu"}

// hostDriver reports whether the system of a node has a driver, as a label of the GPU Operator says. The chart's
// pods stay off such nodes: no selector could leave them out.
func hostDriver(labels map[string]string) bool {
	return labels["nvidia.com/gpu.deploy.driver"] == "pre-installed"
}

// ByChart reports whether the chart's affinity chooses a node; discovery is its value nfd.enabled.
func ByChart(labels map[string]string, discovery bool) bool {
	return (!discovery || HasChartLabel(labels)) && !slices.Contains(forMachines, labels[labelWorkload]) && !hostDriver(labels)
}

// Driver returns the version of the driver that serves the node, as the driver's own labels say, or those of
// GPU feature discovery; "" if neither does.
func (n *Node) Driver() string {
	return cmp.Or(n.Labels["nvidia.com/driver.version.full"], n.Labels["nvidia.com/cuda.driver-version.full"])
}

// vgpuProduct is the end of the name of a vGPU, its memory and kind: "NVIDIA-A10-24Q".
var vgpuProduct = regexp.MustCompile(`-[0-9]+[ABCQ]$`)

// gpusOf reads the labels of a node. capacity is what its device plugin has announced.
func gpusOf(labels map[string]string, capacity jsontext.Value) GPUs {
	g := GPUs{
		Product: labels["nvidia.com/gpu.product"], Branch: labels["nvidia.com/driver.branch"], Modules: labels["nvidia.com/driver.modules"],
		HostDriver: hostDriver(labels),
	}
	g.VGPU = labels["nvidia.com/vgpu.present"] == "true" || vgpuProduct.MatchString(g.Product)
	if kind := labels[labelWorkload]; slices.Contains(forMachines, kind) {
		g.Machines = kind
	}
	looked := false
	for key, value := range labels {
		looked = looked || strings.HasPrefix(key, nfd)
		device, gpu := pciDevice(key)
		if !gpu || value != "true" {
			continue
		}
		if g.Presence = Present; device != 0 {
			g.Devices = append(g.Devices, device)
		}
		if g.Label == "" || key < g.Label { // no rule can name the beginning of a label
			g.Label = key
		}
	}
	slices.Sort(g.Devices)
	g.Devices = slices.Compact(g.Devices)
	for _, c := range slices.Backward(cloudGPUs) { // the first one counts
		if !c.in(labels) {
			continue
		}
		g.Presence, g.Label = Present, c.key
		if c.names && labels["nvidia.com/gpu.product"] == "" {
			g.Product = cloudName(labels[c.key])
		}
	}
	announced := strings.Trim(string(capacity), `"`)
	switch {
	case HasChartLabel(labels):
		g.Presence, g.Label = Present, ""
	case g.Presence == Present:
	case announced != "" && announced != "0" && announced != "null":
		g.Presence = Present
	case looked:
		g.Presence = Absent
	}
	return g
}

// pciLabel is a label of node feature discovery about PCI devices that are GPUs of NVIDIA: pci-<fields>.present, where
// the fields are those of its deviceLabelFields that are set, in their order: class, vendor, device, and the subsystem's.
var pciLabel = regexp.MustCompile(`^` + nfd + `pci-(?:030[02]_)?10de(?:_([0-9a-f]{4})(?:_.*)?)?\.present$`)

// pciDevice reads a label about PCI devices; the device is 0 if it names none. gpu is false for devices of other vendors, and
// for NVIDIA's that are no GPUs (NVSwitch, audio).
func pciDevice(key string) (device uint16, gpu bool) {
	if !strings.HasPrefix(key, byDevice) {
		return 0, false
	}
	m := pciLabel.FindStringSubmatch(key)
	if m == nil {
		return 0, false
	}
	n, _ := strconv.ParseUint(m[1], 16, 16) // four hexadecimal digits, or none
	return uint16(n), true
}
