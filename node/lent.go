package node

import (
	"context"
	"slices"

	"github.com/driver-container/driver-container/node/gpus"
	"github.com/driver-container/driver-container/node/status"
)

// lookAtGPUs looks at the bus and at the kernel's log, and logs what changed.
func (n *Node) lookAtGPUs() []gpus.Change {
	bus, err := n.hardware.GPUs()
	if err != nil {
		n.warn("the GPUs cannot be watched: %v", err)
		return nil
	}
	log := n.hardware.KernelLog()
	for _, address := range gpus.Unbinding(log) {
		n.warn("GPU %s is unbound from the driver although it is in use, which waits in the kernel until nobody uses it: end its users (nvidia-driver holders), "+
			"and persistence mode (nvidia-smi -i %s -pm 0)", address, address)
	}
	changes := n.watched.Look(bus, log)
	for _, c := range changes {
		write := n.log.Info
		if c.To == status.GPULost || c.To == status.GPUTaken {
			write = n.log.Error
		}
		if c.From != "" || c.To != status.GPUOurs {
			write("GPU changed", "what", c.String())
		}
	}
	return changes
}

// followGPUs reports GPUs that were lent, lost or given back since the last look. A GPU that the driver has
// got gets its device files. The result says whether reason is why the driver is not ready; otherwise the
// reason from before may still be right. The driver itself is asked about a GPU that came, and not about one
// that is on its way to another driver, or lost.
func (n *Node) followGPUs(ctx context.Context) (reason string, judged bool) {
	changes := n.lookAtGPUs()
	if len(changes) == 0 {
		return "", false
	}
	if !slices.ContainsFunc(changes, gpus.Change.Came) {
		return n.judge(), true
	}
	if err := n.makeNodes(ctx); err != nil {
		n.warn("a GPU came to the driver: %v", err)
	}
	reason, err := n.examine(ctx)
	if err != nil {
		reason = err.Error()
	}
	return reason, true
}
