package osrelease

import (
	"cmp"
	"strings"
)

// osImage is how a system writes itself in PRETTY_NAME of os-release.
type osImage struct {
	prefix string
	id     string
	// version returns VERSION_ID from the text after the prefix; nil: the number that this text
	// begins with.
	version func(rest string) string
}

// osImages are the systems that nodes of clusters have. A prefix that begins with another one comes
// first.
var osImages = []osImage{
	{prefix: "Ubuntu Core ", id: "ubuntu-core"},
	{prefix: "Ubuntu ", id: "ubuntu", version: minor}, // 22.04.4 LTS has VERSION_ID 22.04
	{prefix: "Debian GNU/Linux ", id: "debian"},
	{prefix: "Rocky Linux ", id: "rocky"},
	{prefix: "AlmaLinux ", id: "almalinux"},
	// Since OpenShift 4.19 these two say ID=rhel and ID=centos, VERSION_ID=9.6 and
	// VARIANT_ID=coreos (openshift/enhancements, rhcos/split-rhcos-into-layers.md).
	{prefix: "Red Hat Enterprise Linux CoreOS 4", id: "rhcos", version: openShift},
	{prefix: "Red Hat Enterprise Linux CoreOS ", id: "rhcos", version: minor},
	{prefix: "Red Hat Enterprise Linux Server ", id: "rhel"},
	{prefix: "Red Hat Enterprise Linux ", id: "rhel"},
	{prefix: "Oracle Linux Server ", id: "ol"},
	{prefix: "CentOS Linux ", id: "centos"},
	{prefix: "CentOS Stream CoreOS 4", id: "scos", version: openShift},
	{prefix: "CentOS Stream CoreOS ", id: "centos", version: major},
	{prefix: "CentOS Stream ", id: "centos"},
	{prefix: "Amazon Linux ", id: "amzn", version: major},
	{prefix: "Fedora Linux ", id: "fedora", version: major},
	{prefix: "Fedora CoreOS ", id: "fedora", version: major},
	{prefix: "SUSE Linux Enterprise Server ", id: "sles", version: servicePack},
	{prefix: "SUSE Linux Enterprise Micro ", id: "sle-micro"},
	{prefix: "SUSE Linux Micro ", id: "sl-micro"},
	{prefix: "openSUSE Leap Micro ", id: "opensuse-leap-micro"},
	{prefix: "openSUSE MicroOS", id: "opensuse-microos"},
	{prefix: "Harvester ", id: "harvester"}, // its ID is sle-micro-rancher
	{prefix: "openSUSE Leap ", id: "opensuse-leap"},
	{prefix: "Flatcar Container Linux by Kinvolk ", id: "flatcar"},
	{prefix: "Container-Optimized OS from Google", id: "cos"},
	{prefix: "Talos (v", id: "talos"},
	{prefix: "Bottlerocket OS ", id: "bottlerocket"},
	{
		prefix: "Bottlerocket (EKS Auto",
		id:     "eks-auto",
	}, // "Bottlerocket (EKS Auto, Nvidia) 2026.4.23 (aws-k8s-1.34-nvidia)"
	{prefix: "Microsoft Azure Linux ", id: "azurelinux"},
	{prefix: "CBL-Mariner/Linux", id: "mariner"},
	{prefix: "Alibaba Cloud Linux ", id: "alinux", version: major},
	{prefix: "TencentOS Server ", id: "tencentos"},
	{prefix: "TencentOS Linux ", id: "tencentos"},
	{prefix: "VMware Photon", id: "photon"},
	{prefix: "openEuler ", id: "openEuler"},
	{prefix: "Kylin Linux Advanced Server ", id: "kylin", version: firstWord},
	{prefix: "Garden Linux ", id: "gardenlinux"},
	{prefix: "NixOS ", id: "nixos"},
	{prefix: "Windows ", id: "windows"},
}

// ParseImage returns ID and VERSION_ID of a system from the text with which kubelet reports it
// (status.nodeInfo.osImage, which is PRETTY_NAME of os-release): "ubuntu", "22.04" for "Ubuntu
// 22.04.4 LTS". The version is "" if the text has none, as for Google's system. ok is false for a
// system that is not known by its text.
func ParseImage(text string) (id, versionID string, ok bool) {
	for _, o := range osImages {
		rest, found := strings.CutPrefix(text, o.prefix)
		if !found {
			continue
		}
		if o.version != nil {
			return o.id, o.version(rest), true
		}
		return o.id, leadingNumber(rest), true
	}
	return "", "", false
}

// leadingNumber returns the dotted number that a text begins with: "9.4" of "9.4 (Plow)".
func leadingNumber(text string) string {
	number := text[:len(text)-len(strings.TrimLeft(text, "0123456789."))]
	return strings.Trim(number, ".")
}

func major(rest string) string {
	number, _, _ := strings.Cut(leadingNumber(rest), ".")
	return number
}

// servicePack reads SUSE's "15 SP6": VERSION_ID is 15.6.
func servicePack(rest string) string {
	number := leadingNumber(rest)
	if pack, ok := strings.CutPrefix(strings.TrimPrefix(rest, number), " SP"); ok {
		return number + "." + leadingNumber(pack)
	}
	return number
}

func minor(rest string) string {
	fields := strings.Split(leadingNumber(rest), ".")
	return strings.Join(fields[:min(len(fields), 2)], ".")
}

func firstWord(rest string) string {
	word, _, _ := strings.Cut(rest, " ")
	return word
}

// openShift reads "18.94.202503102036-0", what follows the first digit of OpenShift's version:
// VERSION_ID is 4.18.
func openShift(rest string) string { return "4." + major(rest) }

const (
	hostModules = " (modules: host in the chart, which driver-build fleet writes for nodes whose labels name the driver: docs/fleet.md)"
	micro       = "SUSE's Micro systems change only by transactional updates: install the driver's modules with transactional-update, and serve them from an image of the same driver" + hostModules
)

// ownWays are systems for which no image of driver-build can bring a driver, by ID: why, and what
// does.
var ownWays = map[string]string{
	"cos": "Google's Container-Optimized OS loads only modules that Google signed: let GKE install the driver (gpu-driver-version of the node pool)",
	"talos": "Talos loads only modules that were signed when its kernel was built: add the system extensions nvidia-open-gpu-kernel-modules " +
		"and nvidia-container-toolkit to the machine's image, or the first one and an image of the same driver" + hostModules,
	"bottlerocket": "Bottlerocket has the driver in its variants whose names end in -nvidia: use one of them for these nodes",
	"rhcos": "OpenShift's nodes have no package manager of their own: if an image of RHEL serves them, add their name to its aliases in the matrix " +
		"(aliases: [rhcos4.18]; since 4.19 their RHEL counts: [rhcos9.6])",
	"scos": "OKD's nodes have no package manager of their own: an image of CentOS Stream serves them, add their name to its aliases in the matrix " +
		"(aliases: [scos4.18])",
	"eks-auto":            "EKS Auto Mode brings the driver and the device plugin itself, and its nodes take no other",
	"azurecontainerlinux": "Azure Container Linux has a read-only /usr and takes the driver as a system extension, which AKS puts there",
	"osguard":             "Azure Linux with OS Guard runs only what Microsoft signed: let AKS install the driver",
	"harvester":           "Harvester gives GPUs to virtual machines: its add-ons pcidevices-controller and nvidia-driver-toolkit bring the driver",
	"sle-micro-rancher":   micro, // SLE Micro as Rancher's Elemental and Harvester have it
	"suse-microos":        micro, // SLE Micro up to 5.2
	"opensuse-microos":    micro,
	"sle-micro":           micro,
	"sl-micro":            micro,
	"opensuse-leap-micro": micro,
	"ubuntu-core":         "Ubuntu Core is made of snaps: use the kernel snap's driver",
	"nixos":               "NixOS builds its driver itself: hardware.nvidia in the machine's configuration",
	"windows":             "it runs Windows",
}

// variants are systems that name another one as their ID, by ID and VARIANT_ID of os-release.
// OpenShift's does from 4.19 on; the text that its kubelet reports says CoreOS. Azure's label
// os-sku has the longer name of OS Guard.
var variants = map[[2]string]string{
	{"rhel", "coreos"}:                    "rhcos",
	{"azurelinux", "azurecontainerlinux"}: "azurecontainerlinux",
	{"azurelinux", "osguard"}:             "osguard",
	{"azurelinux", "azurelinuxosguard"}:   "osguard",
}

// Variant returns the name by which [OwnWay] knows a system with this ID and VARIANT_ID in its
// os-release: "rhcos" for rhel and coreos. It is the ID itself for most.
func Variant(id, variantID string) string {
	return cmp.Or(variants[[2]string{id, variantID}], id)
}

// OwnWay returns why no driver image can serve a system, and what brings the driver there; "" if
// nothing of the kind is known.
func OwnWay(id string) string { return ownWays[id] }
