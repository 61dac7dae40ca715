package fleet

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/images/gpus"
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

// The labels of the rules of driver-build gpus.
const (
	labelModules    = "nvidia.com/driver.modules"
	labelLast       = "nvidia.com/driver.last-branch"
	labelGeneration = "nvidia.com/gpu.generation"
)

// keptPrefixes and keptKeys are the labels that count: for a decision, or because a selector may
// need them.
var (
	keptPrefixes = []string{
		"nvidia.com/",
		byDevice,
		nfd + "system-os_release.",
		nfd + "kernel-version.",
		talosExtension + "n",
	}
	keptKeys = slices.Concat(
		[]string{LabelArch, LabelArchOld, "type", "liqo.io/type"},
		groups,
		cloudSystems,
		instanceTypes,
		slices.Collect(maps.Keys(managedLabels)),
		eksNodes,
		[]string{labelImage},
	)
)

// kept says whether a label counts.
func kept(key string) bool {
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
	isCloud := func(c cloudGPU) bool { return key == c.key }
	return slices.ContainsFunc(keptPrefixes, hasPrefix) || slices.Contains(keptKeys, key) ||
		slices.ContainsFunc(cloudGPUs, isCloud)
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
	// Label is a label that only nodes with a GPU have, with its value; "" if the chart's own rule
	// finds the node, and for hosts.
	Label   string
	Devices []uint16 // PCI numbers, rising; nil if they are not known
	Product string   // name of the GPUs, from GPU feature discovery or a cloud
	// Unnamed is a label with a text that names no known GPU, "k8s.amazonaws.com/accelerator=g4dn".
	// It says no more than that there is one.
	Unnamed string
	// Branch and Modules are what the rules of driver-build gpus put on the node: "R470", the last
	// branch that drives the GPUs, "" if current branches do, and "open".
	Branch, Modules string
	HostDriver      bool // the node has a driver that no container brought
	VGPU            bool // the node is a virtual machine with a vGPU
	Switches        bool // NVLink switches join the GPUs
	// the virtual machines that get the GPUs, and no container does: "vm-passthrough"
	Machines string
}

// nfdLabels are labels of node feature discovery of which the chart wants one to be "true", or else
// labelPresent.
var nfdLabels = []string{
	nfd + "pci-10de.present",
	nfd + "pci-0302_10de.present",
	nfd + "pci-0300_10de.present",
}

// discovered reports whether node feature discovery says by such a label that a node has a GPU.
func discovered(labels map[string]string) bool {
	return slices.ContainsFunc(nfdLabels, func(key string) bool { return labels[key] == "true" })
}

// hasChartLabel reports whether a node has a label by which the chart finds nodes with a GPU.
func (r *Recommendation) hasChartLabel(labels map[string]string) bool {
	return discovered(labels) || labels[labelPresent] == "true" && (r.Managed || !onEKS(labels))
}

// labelWorkload is a label of the GPU Operator: what the GPUs of a node are for.
const labelWorkload = "nvidia.com/gpu.workload.config"

// forMachines are its values for virtual machines. The chart's pods stay off such nodes.
var forMachines = []string{"vm-passthrough", "vm-vgpu"}

// labelDeploy is a label of the GPU Operator: whether a node needs a driver.
const (
	labelDeploy  = "nvidia.com/gpu.deploy.driver"
	preInstalled = "pre-installed"
)

// hostDriver reports whether the system of a node has a driver, as a label of the GPU Operator
// says. The chart's pods stay off such nodes: no selector could leave them out.
func hostDriver(labels map[string]string) bool { return labels[labelDeploy] == preInstalled }

// ByChart reports whether the chart's affinity chooses a node, with the chart's values nfd.enabled
// and managedDrivers.
func (r *Recommendation) ByChart(labels map[string]string) bool {
	if slices.Contains(forMachines, labels[labelWorkload]) || hostDriver(labels) ||
		!r.Managed && managedBy(labels) != "" {
		return false
	}
	return !r.NFD || r.hasChartLabel(labels)
}

// vgpuProduct is the end of the name of a vGPU, its memory and kind, with what GPU feature
// discovery adds: "NVIDIA-A10-24Q", "NVIDIA-A100-1-5CME", "NVIDIA-L40S-48Q-SHARED"; and names of
// the first ones, "GRID-K140Q".
var vgpuProduct = regexp.MustCompile(
	`(-[0-9]+[ABCQ](ME)?|^(NVIDIA-)?GRID-K[12][0-9]0Q)(-MIG-[0-9a-z.+]+)?(-SHARED)?$`,
)

// namesVGPU reports whether a name is that of a vGPU. A GeForce 940A is none, and no vGPU is a
// GeForce.
func namesVGPU(product string) bool {
	return vgpuProduct.MatchString(product) && !strings.Contains(product, "GeForce")
}

const labelProduct = "nvidia.com/gpu.product" // of GPU feature discovery

// driverNames is how the driver's names of GPUs begin since R470 (NVIDIA A100-SXM4-40GB), so also
// those of GPUs that are newer than the list.
const driverNames = "NVIDIA-"

// gpusOf reads the labels of a node. announced says that its device plugin has announced GPUs.
func gpusOf(labels map[string]string, announced bool) GPUs {
	g := GPUs{
		Branch:     labels[labelLast],
		Modules:    labels[labelModules],
		HostDriver: hostDriver(labels),
		Switches:   hasSwitches(labels),
	}
	g.readDevices(labels)
	g.readClouds(labels)
	g.readProduct(labels[labelProduct])
	isVGPU := func(key string) bool { return vgpuTypes.MatchString(labels[key]) }
	g.VGPU = labels["nvidia.com/vgpu.present"] == "true" || namesVGPU(labels[labelProduct]) ||
		slices.ContainsFunc(instanceTypes, isVGPU)
	kind := labels[labelWorkload]
	if slices.Contains(forMachines, kind) {
		g.Machines = kind
	}
	switch {
	case (&Recommendation{}).hasChartLabel(labels):
		g.Presence = Present
		g.Label = ""
	case labels[labelPresent] == "true":
		g.Presence = Present
		g.Label = cmp.Or(g.Label, labelPresent)
	case announced:
		g.Presence = Present
	}
	return g
}

// readDevices reads what node feature discovery says of PCI devices.
func (g *GPUs) readDevices(labels map[string]string) {
	for key, value := range labels {
		if strings.HasPrefix(key, nfd) && g.Presence == Unknown {
			g.Presence = Absent
		}
		device, gpu := pciDevice(key)
		if !gpu || value != "true" {
			continue
		}
		g.Presence = Present
		if device != 0 {
			g.Devices = append(g.Devices, device)
		}
		if g.Label == "" || key < g.Label { // no rule can name the beginning of a label
			g.Label = key
		}
	}
	slices.Sort(g.Devices)
	g.Devices = slices.Compact(g.Devices)
}

// readClouds reads the labels of clouds, of which the first one that names a GPU counts.
func (g *GPUs) readClouds(labels map[string]string) {
	for _, c := range slices.Backward(cloudGPUs) {
		if !c.in(labels) {
			continue
		}
		g.Presence = Present
		g.Label = c.key
		if !c.names {
			continue
		}
		name := cloudName(labels[c.key])
		g.Product = cmp.Or(name, g.Product)
		if name == "" {
			g.Unnamed = c.key + "=" + labels[c.key]
		}
	}
}

// readProduct reads the name that the driver gives a GPU, which counts before those of clouds. A
// name that is not in the list, but one of the driver, is a GPU that is newer than the list: a
// driver that knows it runs there. Another text is anything that people or simulators write.
func (g *GPUs) readProduct(name string) {
	switch {
	case name == "":
	case strings.HasPrefix(name, driverNames) || len(gpus.Named(name)) > 0:
		g.Product = name
	default:
		g.Unnamed = labelProduct + "=" + name
	}
	if g.Product != "" || len(g.Devices) > 0 {
		g.Unnamed = ""
	}
}

// pciLabel is a label of node feature discovery about PCI devices that are GPUs of NVIDIA:
// pci-<fields>.present, where the fields are those of its deviceLabelFields that are set, in their
// order: class, vendor, device, and the subsystem's.
var pciLabel = regexp.MustCompile(
	`^` + nfd + `pci-(?:030[02]_)?10de(?:_([0-9a-f]{4})(?:_.*)?)?\.present$`,
)

// pciDevice reads a label about PCI devices; the device is 0 if it names none. gpu is false for
// devices of other vendors, and for NVIDIA's that are no GPUs (NVSwitch, audio).
func pciDevice(key string) (device uint16, gpu bool) {
	if !strings.HasPrefix(key, byDevice) {
		return 0, false
	}
	m := pciLabel.FindStringSubmatch(key)
	if m == nil || switchLabel.MatchString(key) {
		return 0, false
	}
	n, _ := strconv.ParseUint(m[1], 16, 16) // four hexadecimal digits, or none
	return uint16(n), true
}
