package recipe

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
)

// TestKeeps: which profiles have a file.
func TestKeeps(t *testing.T) {
	t.Parallel()
	const lib, lib32 = "usr/lib/x86_64-linux-gnu", "usr/lib/i386-linux-gnu"
	every := []Profile{Full, Compute, CUDA, CUDATU10x, CUDAGA10x, ModulesOnly}
	all := every[:5]
	for name, want := range map[string][]Profile{
		lib + "/libcuda.so.1":                   all,
		lib + "/libnvidia-ml.so.535.261.03":     all,
		lib + "/libnvidia-nvvm.so.4":            all,
		lib + "/libnvidia-gpucomp.so.550.54":    all,
		lib + "/libnvidia-ptxjitcompiler.so.1":  all,
		lib + "/libnvidia-pkcs11-openssl3.so":   all,
		lib + "/libnvidia-cfg.so.1":             all,
		"usr/bin/nvidia-smi":                    all,
		"usr/bin/nvidia-cuda-mps-server":        all,
		"usr/bin/nvidia-persistenced":           all,
		LicenceFile:                             every,
		SupportedGPUs:                           all,
		lib + "/libcudadebugger.so.1":           {Full, Compute},
		lib + "/libnvidia-opencl.so.1":          {Full, Compute},
		lib + "/libnvcuvid.so.1":                {Full, Compute},
		lib + "/libnvidia-encode.so.1":          {Full, Compute},
		"etc/OpenCL/vendors/nvidia.icd":         {Full, Compute},
		lib + "/libnvidia-glcore.so.1":          {Full},
		lib + "/vdpau/libvdpau_nvidia.so.1":     {Full},
		lib + "/nvidia/libcuda.so.1":            {Full},
		lib32 + "/libcuda.so.1":                 {Full},
		"etc/vulkan/icd.d/nvidia_icd.json":      {Full},
		"usr/bin/nvidia-bug-report.sh":          {Full},
		lib + "/libnvidia-gtk3.so.1":            nil,
		FirmwareDir + "/nvidia/1/gsp_tu10x.bin": {Full, Compute, CUDA, CUDATU10x},
		FirmwareDir + "/nvidia/1/gsp_ga10x.bin": {Full, Compute, CUDA, CUDAGA10x},
		FirmwareDir + "/nvidia/1/gsp.bin":       {Full, Compute, CUDA},
	} {
		var got []Profile
		for _, p := range every {
			if p.Keeps(name, lib, lib32) {
				got = append(got, p)
			}
		}
		assert.Samef(t, want, got, "%s, -want +got", name)
	}
}
