package osrelease

import (
	"fmt"
	"strings"
)

// unserved are systems that no image is made for, with the nearest one that has images. The first
// row that fits counts.
var unserved = []struct{ id, version, near, why string }{
	{"ubuntu", "", "ubuntu26.04", "only LTS releases have images"},
	{"rhel", "7", "centos7", ""},
	{"centos", "8", "rocky8", ""},
	{
		"mariner",
		"",
		"azurelinux3.0",
		"support for CBL-Mariner ended on 2025-07-31: upgrade the nodes to Azure Linux 3",
	},
	// ID_LIKE is "rhel fedora centos", PLATFORM_ID al8 and el8 for version 3.
	{"alinux", "2", "centos7", ""}, {"alinux", "3", "rocky8", ""}, {"alinux", "", "rocky9", ""},
	{"tencentos", "2", "centos7", ""},
	{"tencentos", "3", "rocky8", ""},
	{"tencentos", "", "rocky9", ""},
	{"openEuler", "20", "rocky8", ""}, {"openEuler", "", "rocky9", ""},
	{"kylin", "V10", "rocky8", ""}, {"kylin", "", "rocky9", ""},
	{"photon", "", "debian12", ""},
	{"sles", "16", "sles16.0", ""}, {"opensuse-leap", "16", "opensuse-leap16.0", ""},
}

// Hint says what a system needs besides the image of the one that it is made of, from its
// PRETTY_NAME and its kernel; "" if that is nothing.
func Hint(image, kernel string) string {
	switch {
	case strings.HasPrefix(image, "Fedora CoreOS "):
		return "Fedora CoreOS boots kernels that Fedora's mirrors have replaced: give the pods, or the matrix, the repository of Fedora's " +
			"package fedora-repos-archive, which keeps the headers (docs/kernels.md#headers-on-nodes)"
	case strings.HasSuffix(kernel, ".x86_64_v2"):
		return "AlmaLinux's x86_64_v2 is for processors on which the programs of the usual base do not start: give its row the base for " +
			"linux/amd64/v2, and build the image of these nodes with a matrix of its own"
	}
	return ""
}

// Advice says what to do for nodes of a system that no image is made for.
func Advice(id, versionID string) string {
	for _, u := range unserved {
		if u.id != id || !strings.HasPrefix(versionID, u.version) {
			continue
		}
		text := fmt.Sprintf(
			"%s is near: add aliases: [%s] to its row of the matrix, and compile for the nodes' kernel with --kernel-from "+
				"in an image of their system, or install the kernel's headers on the nodes",
			u.near,
			id+versionID,
		)
		if u.why != "" {
			text = u.why + "; else " + text
		}
		return text
	}
	return "driver-build list shows the systems there are; if one is near, add the name to aliases of its row in the matrix"
}
