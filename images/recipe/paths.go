package recipe

import "github.com/driver-container/driver-container/distros"

// Where the driver's parts are in an image, besides the library folder and usr/bin. The firmware is
// not in lib/firmware: the GPU Operator mounts over that folder in the driver's pod, so the
// entrypoint brings it to the driver root; a link in usr/lib/firmware leads there for everything
// that looks into the image itself.
const (
	ShareDir = "usr/share/nvidia-driver"
	// below it nvidia/<version>/*.bin, as the kernel asks for them
	FirmwareDir   = ShareDir + "/firmware"
	SupportedGPUs = ShareDir + "/supported-gpus.json"
	LicenceFile   = "licenses/LICENSE"
)

// GriddDir is the folder with the libraries of a vGPU guest's licence daemon, below the system's
// library folder.
func GriddDir(libDir string) string { return libDir + "/nvidia/gridd" }

// Gridd is the daemon that gets the licence of a vGPU guest.
const Gridd = "usr/bin/nvidia-gridd"

// ModulesDir is where an image has compiled modules: a kbuild.Cache, one folder a set.
const ModulesDir = ShareDir + "/modules"

// KMMDir is where Kernel Module Management looks for modules: one folder a kernel.
const KMMDir = "opt/lib/modules"

// The names of our own programs in the image. All of the first four are one: the GPU Operator calls
// nvidia-driver, and on OpenShift with its Driver Toolkit the third one; the chart starts EvictLink
// for evictGPUPods.
const (
	EntrypointName = "driver-entrypoint"
	EntrypointLink = "nvidia-driver"
	ToolkitLink    = "ocp_dtk_entrypoint"
	EvictLink      = "usr/bin/driver-evict"
	ProbeName      = "driver-probe"
	BinDir         = "usr/local/bin"
)

// WithoutProbe is what an image without driver-probe does instead.
const WithoutProbe = "GPUs are asked with nvidia-smi, if the image has it"

// DefaultPath is the search path of an image whose base has none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// KernelDir is where the sources of a flavour are.
func KernelDir(version, flavour string) string {
	if flavour == "open" {
		return "usr/src/nvidia-" + version + "/kernel-open"
	}
	return "usr/src/nvidia-" + version + "/kernel"
}

// SearchPath is a search path with the folders of the system's compilers that are not on the usual
// one, last.
func (r *Recipe) SearchPath(path string) string {
	if system, ok := r.Distro.(distros.RPM); ok {
		for _, dir := range system.CompilerDirs() {
			path += ":/" + dir
		}
	}
	return path
}
