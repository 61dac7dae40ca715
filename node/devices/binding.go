package devices

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// driverName is the name of NVIDIA's driver on the PCI bus.
const driverName = "nvidia"

// hostDrivers are drivers of the kernel that take a GPU at boot because nothing stops them. No
// administrator lends a GPU to them.
var hostDrivers = []string{"nouveau", "nova_core", "nova-core", "NovaCore", "nvidiafb", "rivafb"}

// Lent says whether the GPU belongs to another driver on purpose: it is bound to one that passes it through
// (vfio-pci and its variants, pci-stub, a driver in user space), or bound to none and reserved for one by
// driver_override. NVIDIA's driver does not take such a GPU.
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

// silent says whether the device does not answer: a read of its configuration space gives all ones. A device
// that sleeps is not asked, because that would wake it.
func silent(dir string) bool {
	if s := firstWord(filepath.Join(dir, "power/runtime_status")); s == "suspended" || s == "suspending" {
		return false
	}
	f, err := os.Open(filepath.Join(dir, "config"))
	if err != nil {
		return false
	}
	defer f.Close()
	var id [4]byte // vendor and device
	_, err = io.ReadFull(f, id[:])
	return err == nil && id == [4]byte{0xff, 0xff, 0xff, 0xff}
}

// firstWord returns the first word of a small file; "" if it cannot be read.
func firstWord(path string) string {
	text, _ := bounded.Text(path, 128)
	word, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return word
}

// Orphans returns NVIDIA's device files and their links that no driver serves, which a predecessor left whose
// record is lost: names of NVIDIA's, with the driver's fixed major or one that no driver has. It returns none
// while a driver is loaded.
func (n Nodes) Orphans() (found []Node) {
	text, err := bounded.File(filepath.Join(n.Proc, "devices"), maxText)
	majors := parseMajors(text)
	if err != nil {
		return nil
	}
	for name := range majors {
		if strings.HasPrefix(name, "nvidia") {
			return nil
		}
	}
	for _, pattern := range []string{"nvidia*", "nvidia-caps*/*", "gdrdrv"} {
		paths, _ := filepath.Glob(filepath.Join(n.Dev, pattern)) //nolint:errcheck // the pattern is good
		for _, path := range paths {
			var st unix.Stat_t
			if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
				continue
			}
			node := Node{Path: path, Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev), Made: true}
			node.Link = filepath.Join(n.Dev, "char", fmt.Sprintf("%d:%d", node.Major, node.Minor))
			if node.check(n.Dev) == nil && stranger(majors, node.Major) == "" {
				found = append(found, node)
			}
		}
	}
	return found
}
