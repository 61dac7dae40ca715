package metrics

import (
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// These metrics come from the status. Names follow the rules of Prometheus: base units, and the suffix _total
// for counters. The site has them as a table.
var (
	buildInfo  = gauge("entrypoint_build_info", "Version of driver-entrypoint, always 1.", "version", "goversion")
	info       = gauge("info", "The driver that is loaded and served, always 1. module is the srcversion of nvidia.ko, source where the modules came from.", "driver", "module", "flavour", "kernel", "source", "image")
	wantedInfo = gauge("wanted_info", "The driver that this container is to bring up, always 1.", "driver", "kernel", "image")
	state      = gauge("state", "1 for the state that the driver is in, 0 for every other.", "state")
	waitsFor   = gauge("waits_for", "1 for what the instance waits for in state waiting: the node's lock, holders of another driver, clearance (safe load), a fit node or a Driver Toolkit.", "what")
	ready      = gauge("ready", "Whether the driver serves this node.")
	started    = gauge("instance_start_timestamp_seconds", "When this instance of the driver container began.")
	updated    = gauge("status_update_timestamp_seconds", "When the status was last looked after.")
	lastFailed = gauge("last_failure_timestamp_seconds", "When a start last failed on this node since it booted. Absent when none did.")
	warnings   = gauge("warnings", "Warnings of this instance; nvidia-driver status shows them.")

	phaseSeconds = gauge("phase_duration_seconds", "How long each phase of the last start took.", "phase")
	startSeconds = gauge("start_duration_seconds", "How long the last start took, the waiting for the lock and for holders included. Absent until it is over.")
	compiles     = counter("compiles_total", "Compiles of the kernel modules by this instance.", "result")
	lookups      = counter("cache_lookups_total", "Searches for kernel modules in the cache of the host's storage by this instance.", "result")

	holders         = gauge("holders", "Processes, or modules of the kernel, that are in the way because they use the driver that has to go.")
	holderProcesses = gauge("holder_processes", "The same by pod; both labels are empty for processes outside of pods and where the pod's name is not known.", "holder_namespace", "holder_pod")
	blockedUnloads  = counter("blocked_unloads_total", "Stops and replacements that found the driver in use; each counts once, however long it waits.")

	gpusExpected   = gauge("gpus_expected", "NVIDIA GPUs that the driver has to serve: those of this node's PCI bus, without those that are lent, with those that are lost.")
	gpusWorking    = gauge("gpus_working", "GPUs that the driver had initialised when readiness was decided.")
	gpusLent       = gauge("gpus_lent", "GPUs that are lent: another driver has them, such as vfio-pci, or none.")
	gpusLost       = gauge("gpus_lost", "GPUs that fell off the bus.")
	gpuState       = gauge("gpu_state", "Whose a GPU is, always 1. state is ours, lent, taken or lost; driver is the one that it is bound to.", "gpu", "state", "driver")
	gpuUp          = gauge("gpu_up", "Whether this GPU of the driver is initialised.", "gpu", "uuid", "model")
	gpuRegistered  = gauge("gpu_fabric_registered", "Whether this GPU has registered with its NVLink fabric; without that CUDA does not start. Absent for GPUs without a fabric.", "gpu", "uuid", "model")
	companionUp    = gauge("companion_loaded", "Whether nvidia-fs or gdrdrv, which was asked for or which another program loaded, is loaded.", "companion", "version")
	daemonUp       = gauge("daemon_up", "Whether a daemon of the driver is ready.", "daemon")
	daemonRestarts = counter("daemon_restarts_total", "How often a daemon of the driver was started again.", "daemon")
)

func (p *page) status(st status.Snapshot) {
	now := st.State
	if now == "" { // the instance does not have the node's lock yet
		now = status.Waiting
	}
	for _, known := range status.States() {
		p.add(state, boolValue(known == now), string(known))
	}
	for _, what := range []string{status.ForLock, status.ForHolders, status.ForSafeLoad, status.ForPreflight, status.ForToolkit} {
		p.add(waitsFor, boolValue(now == status.Waiting && st.WaitsFor == what), what)
	}
	p.add(ready, boolValue(st.Ready))
	p.add(wantedInfo, 1, st.Wanted, st.Kernel, st.Image)
	p.add(warnings, float64(len(st.Warnings)))
	if !st.Started.IsZero() {
		p.add(started, seconds(st.Started))
	}
	if !st.Updated.IsZero() {
		p.add(updated, seconds(st.Updated))
	}
	if f := st.LastFailure; f != nil && !f.Time.IsZero() {
		p.add(lastFailed, seconds(f.Time))
	}
	if d := st.Up; d != nil {
		image := ""
		if d.Version == st.Wanted { // otherwise the driver is a predecessor's, whose image is unknown
			image = st.Image
		}
		nvidia, _ := status.Named(d.Modules, "nvidia")
		p.add(info, 1, d.Version, nvidia.SrcVersion, d.Flavour, st.Kernel, d.Source, image)
	}
}

func (p *page) start(st status.Snapshot) {
	sum := 0.0
	for _, phase := range st.Phases {
		p.add(phaseSeconds, phase.Seconds, phase.Phase)
		sum += phase.Seconds
	}
	if st.State == status.Serving || st.State == status.Degraded {
		p.add(startSeconds, sum)
	}
	c := st.Counters
	p.add(compiles, float64(c.Compiled), "ok")
	p.add(compiles, float64(c.CompilesFailed), "failed")
	p.add(lookups, float64(c.CacheHits), "hit")
	p.add(lookups, float64(c.CacheMisses), "miss")
}

func (p *page) trouble(st status.Snapshot) {
	p.add(blockedUnloads, float64(st.Counters.BlockedUnloads))
	p.add(holders, float64(len(st.Holders)))
	for pod, n := range byPod(st.Holders) {
		p.add(holderProcesses, float64(n), pod[0], pod[1])
	}
	for _, c := range st.Companions {
		p.add(companionUp, boolValue(c.Loaded), c.Name, c.Version)
	}
	for _, d := range st.Daemons {
		p.add(daemonUp, boolValue(d.Ready), d.Name)
		p.add(daemonRestarts, float64(d.Restarts), d.Name)
	}
}

// byPod counts holders by namespace and name of their pod. Each pod is one series, so pods beyond the limit
// are counted as unknown.
func byPod(all []kmod.Holder) map[[2]string]int {
	const most = 64
	count := map[[2]string]int{}
	for _, h := range all {
		pod := [2]string{h.PodNamespace, h.PodName}
		if _, known := count[pod]; !known && len(count) >= most {
			pod = [2]string{}
		}
		count[pod]++
	}
	return count
}

func (p *page) hardware(st status.Snapshot) {
	if len(st.GPUs) == 0 {
		return // not known yet
	}
	working, expected, _ := status.CountGPUs(st.GPUs)
	count := map[status.GPUState]int{}
	for _, g := range st.GPUs {
		count[g.State]++
		p.add(gpuState, 1, g.Address, string(g.State), g.Driver)
		if g.Expected() {
			p.add(gpuUp, boolValue(g.Works), g.Address, g.UUID, g.Name)
		}
		if g.Fabric != "" {
			p.add(gpuRegistered, boolValue(g.Fabric == probe.FabricCompleted), g.Address, g.UUID, g.Name)
		}
	}
	p.add(gpusExpected, float64(expected))
	p.add(gpusWorking, float64(working))
	p.add(gpusLent, float64(count[status.GPULent]))
	p.add(gpusLost, float64(count[status.GPULost]))
}
