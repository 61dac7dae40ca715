package devices

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

// driverName is the name of NVIDIA's driver on the PCI bus.
const driverName = "nvidia"

// hostDrivers are drivers of the kernel that take a GPU at boot because nothing stops them. No
// administrator lends a GPU to them.
var hostDrivers = []string{"nouveau", "nova_core", "nova-core", "NovaCore", "nvidiafb", "rivafb"}

// Lent says whether the GPU belongs to another driver on purpose: it is bound to one that passes it
// through (vfio-pci and its variants, pci-stub, a driver in user space), or bound to none and
// reserved for one by driver_override. NVIDIA's driver does not take such a GPU.
func (g GPU) Lent() bool {
	if g.Driver == "" {
		return g.Override != "" && g.Override != driverName
	}
	return g.Driver != driverName && !g.Taken()
}

// Taken says whether a graphics driver of the kernel has the GPU, such as nouveau.
func (g GPU) Taken() bool { return slices.Contains(hostDrivers, g.Driver) }

// Bound says whether NVIDIA's driver has the GPU.
func (g GPU) Bound() bool { return g.Driver == driverName }

// Ours returns the GPUs that are not lent, or all of them if all are lent.
func Ours(gpus []GPU) []GPU {
	ours := slices.DeleteFunc(slices.Clone(gpus), GPU.Lent)
	if len(ours) == 0 {
		return gpus
	}
	return ours
}

// silent says whether the device does not answer: a read of its configuration space gives all ones.
// A device that sleeps is not asked, because that would wake it.
func silent(dir string) bool {
	if s := firstWord(filepath.Join(dir, "power/runtime_status")); s == "suspended" ||
		s == "suspending" {
		return false
	}
	// vendor and device
	return string(bounded.Head(filepath.Join(dir, "config"), 4)) == "\xff\xff\xff\xff"
}

// firstWord returns the first word of a small file; "" if it cannot be read.
func firstWord(path string) string {
	text, _ := bounded.Text(path, 128)
	word, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return word
}
