package recipe

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Profile is the part of the user-mode driver that goes into an image.
type Profile string

// The profiles.
const (
	Full    Profile = "full"    // all user-mode libraries except those of the X server
	Compute Profile = "compute" // only what CUDA, NVML and video need
)

// ParseProfile reads the value of --profile.
func ParseProfile(s string) (Profile, error) {
	switch p := Profile(s); p {
	case Full, Compute:
		return p, nil
	default:
		return "", fmt.Errorf("profile %q is not known: use full or compute", s)
	}
}

// computeLibraries are the libraries that libnvidia-container counts to the compute, utility and video
// capabilities (nvc_info.c), without their version: not every driver has each.
var computeLibraries = []string{
	"libcuda.", "libcudadebugger.", "libnvidia-ml.", "libnvidia-cfg.", "libnvidia-nscq.", "libnvidia-opencl.", "libOpenCL.",
	"libnvidia-ptxjitcompiler.", "libnvidia-fatbinaryloader.", "libnvidia-compiler.", "libnvidia-nvvm.", "libnvidia-nvvm70.", "libnvidia-gpucomp.",
	"libnvidia-allocator.", "libnvidia-pkcs11", "libnvidia-tileiras.", "libnvidia-sandboxutils.", "libnvidia-present.",
	"libnvcuvid.", "libnvidia-encode.", "libnvidia-opticalflow.",
}

// xLibraries are drawn in by the X server and by NVIDIA's desktop programs only.
var xLibraries = []string{"libglxserver_nvidia.", "libnvidia-gtk", "libnvidia-wayland-client.", "libXNVCtrl.", "libxnvctrl.", "libnvidia-wfb.", "libwfb.", "nvidia_drv."}

// computePrograms are those of NVIDIA's programs that a node without a screen uses.
var computePrograms = []string{
	"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-modprobe", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
	"nvidia-imex", "nvidia-imex-ctl",
}

// folders of the driver that belong to a profile, besides the library folders and programs.
var (
	alwaysFolders = []string{"licenses/", ShareDir + "/", "etc/OpenCL/", "usr/lib/firmware/"}
	fullFolders   = []string{"etc/vulkan/", "etc/vulkansc/", "usr/share/glvnd/", "usr/share/egl/", "usr/share/nvidia/"}
)

// Keeps reports whether a file of the driver, by its path in the image, belongs to the profile.
func (p Profile) Keeps(name, libDir, libDir32 string) bool {
	for _, dir := range alwaysFolders {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	base := path.Base(name)
	switch {
	case InFolder(name, "usr/bin"):
		return slices.Contains(computePrograms, base) || p == Full && base == "nvidia-bug-report.sh"
	case InFolder(name, libDir):
		if p == Compute {
			return path.Dir(name) == libDir && HasPrefix(computeLibraries, base)
		}
		return !HasPrefix(xLibraries, base)
	case libDir32 != "" && InFolder(name, libDir32):
		return p == Full && !HasPrefix(xLibraries, base)
	}
	return p == Full && HasPrefix(fullFolders, name)
}

// InFolder reports whether a path lies below a folder.
func InFolder(name, dir string) bool { return strings.HasPrefix(name, dir+"/") }

// HasPrefix reports whether a string begins with one of a list of prefixes.
func HasPrefix(list []string, s string) bool {
	for _, p := range list {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
