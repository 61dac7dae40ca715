package fabric

import (
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/node/devices"
)

// coherentGPUs are the PCI device ids of GPUs whose memory the processor (Grace) reaches coherently: GH200
// (three boards), GB200 and GB300. The kernel's vfio driver for them, nvgrace-gpu, has the same list.
var coherentGPUs = []uint16{0x2342, 0x2345, 0x2348, 0x2941, 0x31c2}

const (
	coherentMode = "NVreg_CoherentGPUMemoryMode=driver"
	imexChannel  = "NVreg_CreateImexChannel0=1"
	// coherentFrom is the first branch whose nvidia.ko has the parameter.
	coherentFrom = 580
)

// Parameters returns the parameters of module nvidia that a machine gets before those of the administrator,
// whose values count.
//
// On coherent machines the driver keeps the GPU memory to itself from R580 on. Otherwise the kernel adds that
// memory as NUMA nodes, and the kubelet reports it as memory of the node. channel0 asks for the IMEX channel
// that programs share which do not get one from a ComputeDomain.
func Parameters(driver string, gpus []devices.GPU, channel0 bool) (params []string) {
	coherent := func(g devices.GPU) bool { return slices.Contains(coherentGPUs, g.Device) }
	if driverinfo.Branch(driver) >= coherentFrom && slices.ContainsFunc(gpus, coherent) {
		params = append(params, coherentMode)
	}
	if channel0 {
		params = append(params, imexChannel)
	}
	return params
}
