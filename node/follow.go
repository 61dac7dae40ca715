package node

import (
	"context"
	"slices"

	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// lookAtGPUs looks at the bus and at the kernel's log, and logs what changed.
func (o *observer) lookAtGPUs() []probe.Change {
	bus, err := o.Hardware.GPUs()
	if err != nil {
		o.warn("the GPUs cannot be watched: %v", err)
		return nil
	}
	loaded, err := isLoaded(o.Kernel, "nvidia")
	seen := &o.up.Seen.GPUs
	seen.Unloaded = err == nil && !loaded
	lines := o.Hardware.KernelLog()
	for _, address := range probe.Unbinding(lines) {
		o.warn("GPU %s is unbound from the driver although it is in use, which waits in the kernel "+
			"until nobody uses it: end its users (nvidia-driver holders), and persistence mode "+
			"(nvidia-smi -i %s -pm 0)", address, address)
	}
	unusable := modules.Unusable(lines)
	if unusable != "" {
		o.warn("%s", unusable)
	}
	changes := seen.Look(bus, lines)
	for _, c := range changes {
		switch {
		case c.To == status.GPULost || c.To == status.GPUTaken:
			o.Log.Error("GPU changed", "what", c.String())
		case c.From != "" || c.To != status.GPUOurs:
			o.Log.Info("GPU changed", "what", c.String())
		}
	}
	return changes
}

// followGPUs reports GPUs that were lent, lost or given back since the last look. A GPU that the
// driver has got gets its device files. The result says whether reason is why the driver is not
// ready; otherwise the reason from before may still be right. The driver itself is asked about a
// GPU that came, and not about one that is on its way to another driver, or lost.
func (o *observer) followGPUs(ctx context.Context) (reason string, decided bool) {
	changes := o.lookAtGPUs()
	if len(changes) == 0 {
		return "", false
	}
	if !slices.ContainsFunc(changes, probe.Change.Came) {
		return o.gpuReason(), true
	}
	var err error
	*o.up, err = o.makeNodes(ctx, *o.up)
	if err != nil {
		o.warn("a GPU came to the driver: %v", err)
	}
	return o.ask(ctx), true
}

// followCompanions reports companions that other programs loaded or unloaded, and loads those that
// waited for users of an older version.
func (o *observer) followCompanions(ctx context.Context) {
	before := o.Status.Get().Companions
	states, again := o.group(o.up.ModuleSet).Look(o.up.Driver.Modules, before)
	if !again {
		o.showCompanions(states)
		return
	}
	var err error
	*o.up, err = o.loadCompanions(ctx, *o.up)
	if err != nil {
		return
	}
	*o.up, err = o.makeNodes(ctx, *o.up)
	if err != nil {
		o.warn("device files of a companion: %v", err)
	}
}

// followLicences keeps the licences of vGPUs in the status while the driver serves. A licence that
// is lost then is no reason: work that runs goes on, only slower, and the node stays ready.
func (o *observer) followLicences(ctx context.Context) {
	st := o.Status.Get()
	seen := &o.up.Seen.GPUs
	if st.State != status.Serving || !seen.Licences() {
		return
	}
	answer, err := o.Hardware.Ask(ctx)
	if err != nil { // what is wrong with the driver, the metrics and the next decision say
		return
	}
	states, lost, got := seen.Relicensed(answer, st.GPUs)
	o.Status.GPUs(states, "")
	if len(lost) > 0 {
		o.Log.Warn("vGPU licence lost", "gpus", lost,
			"effect", "it becomes slow after some minutes to a day; the node stays ready",
			"next", "look at the state of nvidia-gridd, the token and the licence server")
	}
	if len(got) > 0 {
		o.Log.Info("vGPU licensed", "gpus", got)
	}
}
