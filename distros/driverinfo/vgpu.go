package driverinfo

// Whose licence a vGPU guest driver needs, and so where it may run: the values of Description.VGPU
// and of the key vgpu of a driver in the matrix.
const (
	VGPUNVIDIA = "nvidia" // a vGPU licence of NVIDIA's, which a licence server lends to each guest
	VGPUAWS    = "aws"    // machines of AWS, which pays for them
	VGPUAzure  = "azure"  // the same of Microsoft
	VGPUGoogle = "google" // the same of Google
)

// VGPULabel is the label of an image, and the annotation of its manifest, that has the value too.
const VGPULabel = "io.github.driver-container.vgpu"

// VGPULicences are all values of Description.VGPU except "", which is a driver for whole GPUs.
func VGPULicences() []string { return []string{VGPUNVIDIA, VGPUAWS, VGPUAzure, VGPUGoogle} }

// MakeVariables returns what make is told besides when it compiles the modules of a driver with
// such a licence; nil for drivers of whole GPUs. NVIDIA's conftest.sh turns them into NV_GRID_BUILD
// and NV_GRID_BUILD_CSP, by which the modules know that they serve a guest, and whose. The sources
// of a guest archive define them themselves; the public build scripts of EKS and Bottlerocket give
// both, for sources that do not. The number is public for AWS alone.
func MakeVariables(vgpu string) []string {
	switch vgpu {
	case "":
		return nil
	case VGPUAWS:
		return []string{"GRID_BUILD=1", "GRID_BUILD_CSP=1"}
	default:
		return []string{"GRID_BUILD=1"}
	}
}
