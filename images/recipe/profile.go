package recipe

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
)

// Profile is the part of the user-mode driver that goes into an image. With ModulesOnly the image
// has nothing else either.
type Profile string

// The profiles.
const (
	Full    Profile = "full"    // all user-mode libraries except those of the X server
	Compute Profile = "compute" // only what CUDA, NVML, OpenCL and video need
	CUDA    Profile = "cuda"    // only what CUDA and NVML need

	// CUDA with the firmware of some GPUs: Turing and GA100, or the newer ones.
	CUDATU10x Profile = cudaWith + "tu10x"
	CUDAGA10x Profile = cudaWith + "ga10x"

	// ModulesOnly is compiled modules and their licence: for an image that is mounted beside
	// another one, and starts nothing.
	ModulesOnly Profile = "modules"
)

// cudaWith begins the profiles with a part of the firmware; the rest names the file, gsp_tu10x.bin.
const cudaWith = "cuda-"

// ParseProfile reads the value of --profile.
func ParseProfile(s string) (Profile, error) {
	if !slices.Contains(matrix.Profiles(), s) && s != string(ModulesOnly) {
		return "", fmt.Errorf(
			"profile %q is not known: use full, compute, cuda, cuda-tu10x, cuda-ga10x or modules",
			s,
		)
	}
	return Profile(s), nil
}

// computeLibraries are the libraries that libnvidia-container counts to the compute, utility and
// video capabilities (nvc_info.c), without their version: not every driver has each.
var computeLibraries = []string{
	"libcuda.", "libcudadebugger.", "libnvidia-ml.", "libnvidia-cfg.", "libnvidia-nscq.", "libnvidia-opencl.", "libOpenCL.",
	"libnvidia-ptxjitcompiler.", "libnvidia-fatbinaryloader.", "libnvidia-compiler.", "libnvidia-nvvm.", "libnvidia-nvvm70.", "libnvidia-gpucomp.",
	"libnvidia-allocator.", "libnvidia-pkcs11", "libnvidia-tileiras.", "libnvidia-sandboxutils.", "libnvidia-present.",
	"libnvcuvid.", "libnvidia-encode.", "libnvidia-opticalflow.",
}

// cudaLibraries are those of computeLibraries without video, OpenCL, the debugger and buffers that
// are displayed: libcuda and libnvidia-ml, and what they load by name.
var cudaLibraries = []string{
	"libcuda.", "libnvidia-ml.", "libnvidia-cfg.", "libnvidia-nscq.", "libnvidia-ptxjitcompiler.", "libnvidia-fatbinaryloader.",
	"libnvidia-nvvm.", "libnvidia-nvvm70.", "libnvidia-gpucomp.", "libnvidia-pkcs11", "libnvidia-tileiras.", "libnvidia-sandboxutils.",
}

// xLibraries are drawn in by the X server and by NVIDIA's desktop programs only.
var xLibraries = []string{
	"libglxserver_nvidia.",
	"libnvidia-gtk",
	"libnvidia-wayland-client.",
	"libXNVCtrl.",
	"libxnvctrl.",
	"libnvidia-wfb.",
	"libwfb.",
	"nvidia_drv.",
}

// computePrograms are those of NVIDIA's programs that a node without a screen uses.
var computePrograms = []string{
	"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-modprobe", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
	"nvidia-imex", "nvidia-imex-ctl", "nvidia-gridd", "nvidia-topologyd",
}

// folders of the driver that belong to a profile, besides the library folders and programs.
var (
	alwaysFolders = []string{"licenses/", ShareDir + "/", "usr/lib/firmware/", "etc/nvidia/"}
	fullFolders   = []string{
		"etc/vulkan/",
		"etc/vulkansc/",
		"usr/share/glvnd/",
		"usr/share/egl/",
		"usr/share/nvidia/",
	}
)

// Keeps reports whether a file of the driver, by its path in the image, belongs to the profile.
func (p Profile) Keeps(name, libDir, libDir32 string) bool {
	base := path.Base(name)
	switch {
	case p == ModulesOnly:
		return name == LicenceFile
	case HasPrefix(alwaysFolders, name):
		return p.keepsFirmware(base)
	case InFolder(name, "etc/OpenCL"):
		return !p.onlyCUDA()
	case InFolder(name, "usr/bin"):
		return slices.Contains(computePrograms, base) || p == Full && base == "nvidia-bug-report.sh"
	case InFolder(name, GriddDir(libDir)):
		return true
	case InFolder(name, libDir):
		switch p {
		case Full:
			return !HasPrefix(xLibraries, base)
		case Compute:
			return path.Dir(name) == libDir && HasPrefix(computeLibraries, base)
		}
		return path.Dir(name) == libDir && HasPrefix(cudaLibraries, base)
	case libDir32 != "" && InFolder(name, libDir32):
		return p == Full && !HasPrefix(xLibraries, base)
	}
	return p == Full && HasPrefix(fullFolders, name)
}

func (p Profile) onlyCUDA() bool { return p == CUDA || p.Firmware() != "" }

// Firmware returns the only firmware that the profile keeps: "gsp_tu10x.bin"; "" for all.
func (p Profile) Firmware() string {
	gpus, some := strings.CutPrefix(string(p), cudaWith)
	if !some {
		return ""
	}
	return "gsp_" + gpus + ".bin"
}

// keepsFirmware reports whether the profile has a file by its name, if that is one of NVIDIA's GSP
// firmware.
func (p Profile) keepsFirmware(base string) bool {
	return p.Firmware() == "" || !strings.HasPrefix(base, "gsp") || base == p.Firmware()
}

// InFolder reports whether a path lies below a folder.
func InFolder(name, dir string) bool { return strings.HasPrefix(name, dir+"/") }

// HasPrefix reports whether a string begins with one of a list of prefixes.
func HasPrefix(list []string, s string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return strings.HasPrefix(s, p) })
}
