package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/fabric"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
	"github.com/driver-container/driver-container/node/vgpu"
)

// stories plays stories, each in a world of its own.
func stories(t *testing.T, told map[string]string, edit ...func(*Node)) {
	t.Helper()
	for name, story := range told {
		t.Run(name, func(t *testing.T) { bubble(t, func(t *testing.T, w *world) { w.tell(t, story, edit...) }) })
	}
}

// Starts and stops, scenarios 1 to 13 of the lab. A start has the phases by which others know how far it is.
func TestStarts(t *testing.T) {
	var phases []string
	for _, p := range status.Phases() {
		phases = append(phases, "{Phase:"+p+" Seconds:")
	}
	stories(t, map[string]string{
		"first and second": `
			run 535
				11s see ` + strings.Join(phases, " | ") + `
			end served absent | +compile | State: Ready
			run 535
			end served absent | -compile`,
		"disk full when the modules are kept, signal in a compile": `
			run 535
				on keep: fail
			end served absent
			run 470 500ms
			end unserved absent | after 500ms`,
		"unknown and other parameters": `
			cached 535
			run 535 param=NVreg_Unknown=1
			end unserved absent | error ErrConfig | -insert nvidia
			leave 535
			run 535 param=NVreg_A=1
			end served absent | +insert nvidia | nvidia:[NVreg_A=1]`,
		"a daemon does not start, and dies": `
			no daemon
			run 535 2m
				19s see State:degraded | nvidia-persistenced ended at once
				20s not no daemon
				80s daemon dies
			end served absent`,
		"the GPU comes up later": `
			sick
			run 535 2m
				19s see State:degraded
				20s not sick
			end served absent`,
		"killed between two modules: only the record says what the first one was": `
			run 535
				on insert nvidia_modeset: kill
			end killed true | -keep
			run 535
				7s holder comes
			end served whole | -delete nvidia_uvm | -insert nvidia | files: <nil>`,
		"another build is loaded meanwhile": `
			faster
			run 535
			end unserved | error | another build of it is loaded already | State:failed`,
		"the kernel ignores parameters": `
			ignoring parameters
			run 535 param=NVreg_A=1
			end unserved | error | not as they were loaded: nvidia is loaded with other parameters: NVreg_A | State:failed`,
		"a set without nvidia-modeset": `
			fewer modules
			run 535
			end unserved | error | has no nvidia-modeset | State:failed`,
		"the last failure outlives later starts": `
			broken 535
			run 535
			end unserved | error | failure {Time: | Wanted:535.261.03 Pod:gpu/driver-x Reason:load
			well
			run 535
				8s see State:serving | Wanted:535.261.03 Pod:gpu/driver-x Reason:load
			end served absent`,
		"the lock is never free": `
			locked
			run 535 1h
			end unserved | error: lock: another driver container holds the lock of this node | last words: lock: another driver container holds the lock`,
	}, func(n *Node) { n.cfg.Pod, n.cfg.PodNamespace = "driver-x", "gpu" })
}

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

// Upgrades: the new driver fails and the old one is restored; while the old one is in use, the new one waits.
func TestUpgrade(t *testing.T) {
	stories(t, map[string]string{
		"fails": `
			leave 470, broken 535
			run 535
			end unserved whole | error: driver 535.261.03 failed to start, 470.256.02 is loaded again | (ENODEV) | State:restored | up {Version:470.256.02`,
		"neither loads": `
			leave 470, broken 535, broken 470
			run 535
			end unserved absent | error: driver 535.261.03 failed to start | and 470.256.02 could not be put back | State:failed`,
		"in use": `
			leave 470, holder comes
			run 535 1m
				19s see State:waiting | Ready:false | Holders:[pid 4711 (python3) | 470.256.02 must go before 535.261.03 can be loaded | up {Version:470.256.02
				20s users go
			end served absent
			leave 470, holder comes
			run 535
			end unserved whole | State:detached | up {Version:470.256.02`,
	})
}

// Changes which others make to a driver that serves are reported and never repaired, and a stop nevertheless
// leaves nothing behind.
func TestMeddlers(t *testing.T) {
	for what, want := range map[string]string{
		"mounted over": "mounted over the driver root", "unmounted": "was unmounted by another program", "uvm unloaded": "nvidia_uvm was unloaded by another program",
		"modeset unloaded": "nvidia_modeset was unloaded by another program",
		"daemon dies":      "it ended with code 1", "lock file removed": "", "lock file taken": "cannot be made anew",
	} {
		stories(t, map[string]string{what: fmt.Sprintf(`
			run 535 1m
				11s %s
				18s see %s | Ready:%v
			end served absent`, what, want, strings.HasPrefix(what, "lock"))})
	}
}

// A module that differs is replaced alone, as soon as nobody uses it, while other programs go on using the
// driver. One that cannot be loaded leaves that driver as it was, the modules that were replaced included.
func TestReplacesOnlyWhatDiffers(t *testing.T) {
	told := map[string]string{"": `
			leave 535, holder comes, lose nvidia_modeset
			run 535 uvm=NVreg_A=1
			end served whole | nvidia_uvm:[NVreg_A=1] | +delete nvidia_uvm | -delete nvidia | -insert nvidia
			uvm holder comes, lose nvidia_modeset
			run 535 1m
				19s see State:waiting | WaitsFor:holders | Holders:[pid 4712 (python3) | driver 535.261.03 cannot be completed yet: nvidia_uvm was loaded with parameters ["NVreg_A=1"], wanted are []; nvidia_modeset is not loaded: Could not unload NVIDIA driver kernel modules, driver is in use by pid 4712
				20s last user goes
			end served whole | nvidia_uvm:[] | 1 users`}
	for _, fails := range []string{"insert nvidia_uvm", "insert nvidia_modeset", "delete nvidia_uvm"} {
		told[fails] = `
			leave 535, holder comes, lose nvidia_modeset
			run 535 uvm=NVreg_A=1
				on ` + fails + `: fail
			end unserved | error ErrLeft: | injected failure | State:detached | modules [i2c_core ipmi_devintf ipmi_msghandler nvidia nvidia_uvm] | nvidia_uvm:[] | record: nvidia_modeset is not in it
			run 535
			end served whole`
	}
	stories(t, told)
}

// nvidia-peermem is loaded with the others if Mellanox's module is loaded, and otherwise left to
// reload_nvidia_peermem.
func TestRDMA(t *testing.T) {
	stories(t, map[string]string{"": `
			run 535
			end served absent | -insert nvidia_peermem
			load mlx5_core
			run 535
			end served absent | +insert nvidia_peermem`}, full)
}

// nouveau is unloaded only if that is configured, with the modules that use it, and never by force.
func TestUnloadNouveau(t *testing.T) {
	stories(t, map[string]string{"not asked for": `
			load nouveau
			run 535
			end served absent | nouveau`})
	stories(t, map[string]string{"asked for": `
			load nouveau
			run 535
			end served absent | !nouveau
			load nouveau, user of nouveau
			run 535
			end unserved | error ErrInUse: | unload nouveau`}, func(n *Node) { n.cfg.UnloadNouveau = true })
}

// A container that waits for a fit node says why, touches nothing, and goes on by itself: after a minute, and
// as soon as another driver is gone. A signal ends the wait at once. Without the wait, the termination message
// has what the check found.
func TestUnfitNode(t *testing.T) {
	const waits = `
			unfit, cached 535, load nouveau
			run 535 5m waits
				100s see State:waiting | WaitsFor:preflight | Phase:preflight | no headers | !failure {Time:0001 | CacheHits:1
				%s see State:waiting
				%s see State:serving | Reason: WaitsFor | CacheHits:1
				152s not unfit
				%s unload nouveau
			end served absent | log 1× waiting for a fit node | log 1× nothing prevents the driver any more | log 1× driver chosen | log 1× another compiler`
	stories(t, map[string]string{
		"a minute passes":     fmt.Sprintf(waits, "175s", "182s", "183s"),
		"nouveau is unloaded": fmt.Sprintf(waits, "151s", "158s", "152s"),
		"stopped": `
			unfit
			run 535 90s waits
			end unserved absent | after 1m30s | State: Ready | -stage
			not unfit, leave 470, unfit
			run 535 90s waits
			end unserved whole | State:detached | up {Version:470.256.02`,
		"not waited for": `
			unfit
			run 535 1h
			end unserved absent | error: preflight: this node cannot run the driver as it is | State:failed | last words: preflight: this node cannot run the driver as it is: | no headers`,
	})
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
				19s see Ready:true | GPUs ` + ours + other + `lent | !/dev/nvidia1
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
				17s GPU goes
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
		stories(t, map[string]string{name: c.story}, func(n *Node) { n.Kernel.(*instance).fabric, n.registration.Who = &c.fabric, c.who })
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

// Companions are loaded after the driver and unloaded before it, a successor of a killed instance keeps them, and a
// driver is ready without them.
func TestCompanions(t *testing.T) {
	const (
		fs, drv = "Name:nvidia-fs Version:535.261.03 SrcVersion:NVIDIA_FS535.261.03", "Name:gdrdrv Version:535.261.03 SrcVersion:GDRDRV535.261.03"
		good    = " Loaded:true Foreign:false Reason:}"
		who     = "nvidia_fs 2.17 was loaded by another program, perhaps by nvidia-gds-driver, which runs as pid 99 (nvidia-gds-driv) in pod gpu-operator/driver-x"
		refusal = "failing symbol_get of non-GPLONLY symbol nvidia_p2p_get_pages."
	)
	stories(t, map[string]string{
		"kept by a successor": `
			direct
			run 535 direct
				8s see Ready:true | ` + fs + good + ` | ` + drv + good + `
			end served absent | in order insert nvidia, insert nvidia_fs, insert gdrdrv, delete nvidia_fs, delete nvidia
			leave 535, storage holder comes
			run 535 direct
			end served whole | -insert nvidia_fs | -delete nvidia_fs | State:detached | fio | nvidia_fs
			users go
			run 535 direct
			end served absent`,
		"left out": `
			omit nvidia-fs
			run 535 direct
				8s see Ready:true | ` + drv + good + ` | Name:nvidia-fs Version: SrcVersion: Loaded:false Foreign:false Reason:the modules for kernel  have no nvidia-fs 2.13.5: it does not compile: no such field
			end served absent`,
		"refused": `
			refuse nvidia_fs
			run 535 direct
				8s see Ready:true | ` + drv + good + ` | Loaded:false Foreign:false Reason:load nvidia_fs: the kernel refused the module nvidia_fs
			end served absent`,
		"another build replaces one as soon as no program uses it, while the driver stays": `
			direct, leave 535, build b, storage holder comes
			run 535 1m direct
				10s see Ready:true | ` + fs + ` Loaded:true Foreign:false Reason: | nvidia_fs is in use by pid 4713 (fio) | ` + drv + `b Loaded:true
				20s users go
				40s see ` + fs + `b` + good + `
			end served absent | in order delete nvidia_fs, delete nvidia
			forgive record`,
		"a stop that the kernel refuses half way loads them again": `
			run 535 direct
				on delete nvidia_modeset: uvm holder comes
			end served whole | modules [gdrdrv i2c_core ipmi_devintf ipmi_msghandler nvidia nvidia_fs nvidia_modeset nvidia_uvm] | State:detached`,
		"those of other programs stay, are named, and go with the driver": `
			sidecar, direct, leave 535, lose nvidia_fs, nvidia_fs comes
			run 535 direct
				8s see Ready:true | Name:nvidia-fs Version:2.17 SrcVersion:NVIDIA_FS2.17 Loaded:true Foreign:true | ` + who + `
			end served absent
			run 535
				4s nvidia_fs comes
				4s pin nvidia_fs
			end State:detached | ` + who,
		"asked for later: compiled and loaded without touching the driver, which stays if that fails": `
			leave 535, holder comes, uncached 535
			run 535 direct
				8s see ` + fs + good + ` | ` + drv + good + `
			end served whole | -insert nvidia | +keep
			lose nvidia_fs gdrdrv, uncached 535
			run 535 direct
				on compile: fail
				8s see Ready:true | the modules of the loaded driver are not at hand | its companions are missing: injected failure
			end served whole
			kernel-log ` + refusal + `
			run 535 direct
				6s kernel-log ` + refusal + `
			end served whole | a program could not open /dev/nvidia-fs*`,
	})
	for name, c := range map[string]struct {
		says string
		edit func(n *Node)
	}{
		"not in image": {"the image has no nvidia-fs; use an image with it (driver-build --companions nvidia-fs), or leave --gds (GDS_ENABLED) off", func(n *Node) { n.Info.Companions = nil }},
		"for open only": {"is for the open kernel modules, and not for the proprietary ones", func(n *Node) {
			n.Info.Companions[0].Flavours, n.Kernel.(*instance).extra = []string{"open"}, nil
		}},
		"made without it": {"have no nvidia-fs 2.13.5: they were made without it; use an image", func(n *Node) { n.Kernel.(*instance).extra = []string{"gdrdrv"} }},
	} {
		stories(t, map[string]string{name: `
			run 535 direct
				8s see Ready:true | ` + c.says + ` | Name:gdrdrv Version:` + map[bool]string{true: "535.261.03"}[name == "made without it"] + ` SrcVersion:
			end served absent`}, c.edit)
	}
}
