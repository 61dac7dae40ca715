package node

import (
	"fmt"
	"testing"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/fabric"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
	"github.com/driver-container/driver-container/node/vgpu"
)

// A GPU that does not come up is in the way, or a warning.
func TestSickGPU(t *testing.T) {
	for policy, says := range map[string]string{config.GPURequire: "unserved", config.GPUWarn: "served"} {
		stories(t, map[string]string{policy: `
			sick
			run 535
				8s see RmInitAdapter | Works:false | Ready:` + fmt.Sprint(says == "served") + `
			end ` + says + ` absent`}, func(n *Node) { n.cfg.GPUInit = policy })
	}
}

const ours, other = "0000:05:00.0 ours works, ", second + " "

// A GPU is lent to a VM and comes back while the container serves. The driver is ready all the time, the
// status names the GPU, and a GPU that was lent at the start gets its device file. Without a GPU of its own the
// driver stays ready, also for the container after this one.
func TestLentGPU(t *testing.T) {
	stories(t, map[string]string{
		"comes and goes": `
			GPU comes, GPU vfio-pci
			run 535 1m
				9s see Ready:true | GPUs ` + ours + other + `lent | !/dev/nvidia1
				11s GPU unbound
				19s see Ready:true | GPUs ` + ours + other + `lent | !/dev/nvidia1 | lent to no driver: echo ` + second + ` > /sys/bus/pci/drivers/nvidia/bind gives it to this one
				21s GPU nvidia
				29s see Ready:true | GPUs ` + ours + other + `ours works | /dev/nvidia1
				30s kernel-log NVRM: Attempting to remove device ` + second + ` with non-zero usage count!
				31s GPU vfio-pci
				39s see Ready:true | GPUs ` + ours + other + `lent
				41s see GPU ` + second + ` is unbound from the driver although it is in use
			end served absent`,
		"all": `
			GPU comes
			run 535 1h
				11s GPUs vfio-pci
				unused 18s
				19s see Ready:true | GPUs 0000:05:00.0 lent, ` + other + `lent
				19s kill
			end served whole | killed true
			run 535
				9s see Ready:true | GPUs 0000:05:00.0 lent, ` + other + `lent
			end served absent`,
		"lost at the start: the others are served, and the node is not ready": `
			GPU comes, GPU silent
			run 535
				9s see State:degraded | GPUs ` + ours + other + `lost
			end unserved absent`,
		"leaves while the stop waits": `
			GPU comes
			run 535
				11s holder comes
				14s GPU vfio-pci
				16s GPU goes
				17s users go
			end served absent | State: Ready | files []`,
	})
}

// A GPU falls off the bus. The reason names it and what to do, the other GPU is served, and the driver is ready
// again when the GPU is back.
func TestLostGPU(t *testing.T) {
	const xid = "NVRM: Xid (PCI:0000:06:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
	for name, c := range map[string]struct{ fall, rise, policy, reason string }{
		"silent":                      {"GPU silent", "GPU nvidia", config.GPURequire, "all ones"},
		"gone":                        {"GPU goes", "GPU comes", config.GPURequire, "not on the PCI bus any more"},
		"Xid 79":                      {"kernel-log " + xid, "cached 535", config.GPURequire, xid},
		"Xid 79, and bound anew":      {"kernel-log " + xid, "GPU unbound\n31s GPU nvidia", config.GPURequire, xid},
		"gone, and that is a warning": {"GPU goes", "GPU comes", config.GPUWarn, "not on the PCI bus any more"},
	} {
		stories(t, map[string]string{name: `
			GPU comes
			run 535 2m
				11s ` + c.fall + `
				23s see GPU ` + second + ` (10de:1eb8) fell off the bus:  | ` + c.reason + ` | the other GPUs go on | Drain the node | GPUs ` + ours + other + `lost | Ready:` + fmt.Sprint(c.policy == config.GPUWarn) + `
				26s ` + c.rise + `
				100s see Ready:true | GPUs ` + ours + other + `ours works
			end served absent`}, func(n *Node) { n.cfg.GPUInit = c.policy })
	}
}

// A start waits until the GPUs have registered with their NVLink fabric, and says so; nothing is ready
// meanwhile. A registration that does not end, and one that failed, leave the node not ready with the reason; it
// recovers by itself. With --fabric=ignore they do not count.
func TestFabric(t *testing.T) {
	const failing = `
			run 535 20m
				%s see State:%s | %s
				%s no fabric
				%s see State:serving | Reason: WaitsFor
			end served absent`
	for name, c := range map[string]struct {
		fabric probe.Fabric
		who    string
		story  string
	}{
		"registers": {probe.Fabric{State: probe.FabricInProgress}, fabric.Auto, `
			run 535 10m
				30s see State:starting | Ready:false | Fabric:in progress | registration with the NVLink fabric is in progress on 1 of 1 GPUs (00000000:05:00.0); waiting for it until 
				31s no fabric
				40s see State:serving | Reason: WaitsFor
			end served absent`},
		"never ends": {probe.Fabric{State: probe.FabricNotStarted}, fabric.Auto, fmt.Sprintf(failing, "359s", status.Degraded,
			"not started on 1 of 1 GPUs (00000000:05:00.0), and did not end within 5m0s", "6m", "7m")},
		"failed": {probe.Fabric{State: probe.FabricCompleted, Error: "Timeout"}, fabric.External, fmt.Sprintf(failing, "19s", status.Degraded,
			"failed: GPU 00000000:05:00.0: Timeout", "20s", "80s")},
		"does not count": {probe.Fabric{State: probe.FabricInProgress}, fabric.Ignore, fmt.Sprintf(failing, "19s", status.Serving, "Ready:true", "20s", "80s")},
	} {
		stories(t, map[string]string{name: c.story}, func(n *Node) { n.Kernel.(*instance).fabric, n.cfg.Fabric = &c.fabric, c.who })
	}
}

// With --vgpu-licence=require a vGPU without a licence keeps the node from being ready, until it gets one. By
// default the node is ready, and the status says it. A licence that is lost later changes the status alone.
func TestLicence(t *testing.T) {
	for mode, first := range map[string]string{vgpu.LicenceWarn: "Ready:true", vgpu.LicenceRequire: "Ready:false | vGPU without a licence: 00000000:05:00.0; it becomes slow"} {
		stories(t, map[string]string{mode: `
			unlicensed
			run 535 20m
				19s see Licence:unlicensed | ` + first + `
				20s licensed 2030-01-02T03:04:05Z
				80s see State:serving
				359s see Licence:licensed until 2030-01-02T03:04:05Z
				6m unlicensed
				12m see State:serving | Licence:unlicensed | Reason: WaitsFor
				721s licensed
				18m see Licence:licensed}
			end served absent`}, func(n *Node) { n.cfg.VGPULicence = mode })
	}
}
