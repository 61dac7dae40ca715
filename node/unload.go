package node

import (
	"context"
	"slices"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// free returns nil when every module of a driver could be unloaded, else an *InUseError that names
// the holders. Our own daemons do not count: they are stopped first.
func (n *Node) free(ctx context.Context, d status.Driver, ours Daemons) error {
	var pids []int
	if ours != nil {
		pids = ours.PIDs()
	}
	holders, err := n.Kernel.Holders(ctx, func(pid int) bool { return slices.Contains(pids, pid) })
	if err != nil {
		return err
	}
	byHost := d.Source == status.FromHost
	if byHost { // its modules stay, and the host's own programs do not use our root
		holders = slices.DeleteFunc(holders, func(h kmod.Holder) bool {
			return h.Container == "" && h.Pod == ""
		})
	}
	if len(holders) > 0 {
		return &modules.InUseError{Holders: holders}
	}
	// daemons raise the counts of the modules too, and their part cannot be distinguished
	if byHost || len(pids) > 0 {
		return nil
	}
	stack, err := n.stack().Loaded("nvidia")
	if err != nil {
		return err
	}
	return noted(modules.Unreferenced(stack), modules.Foreign(stack, d.Modules))
}

// unload removes every module that uses nvidia, then nvidia, then the modules of the kernel that
// were loaded for it.
func (n *Node) unload(ctx context.Context, d status.Driver) error {
	stack, err := n.stack().Loaded("nvidia")
	if err != nil {
		return err
	}
	_, err = n.stack().Delete(ctx, stack, d)
	notes := modules.Foreign(stack, d.Modules)
	if err != nil {
		return noted(err, notes)
	}
	if notes != "" {
		n.Log.Warn("unloaded with the driver", "reason", notes)
	}
	n.sweepCompanions(ctx)
	n.stack().DeleteInTree(ctx, d.InTree)
	n.removeNodes(d.Nodes)
	return nil
}

func (n *Node) sweepCompanions(ctx context.Context) {
	err := twice(func() error { return modules.Group{Kernel: n.Kernel}.Sweep(ctx) })
	if err != nil {
		n.warn("%v", err)
	}
}

// removeNodes only warns if it fails: a device file without a driver harms nobody.
func (n *Node) removeNodes(nodes []devices.Node) {
	err := twice(func() error { return n.Hardware.RemoveNodes(nodes) })
	if err != nil {
		n.warn("remove device files: %v", err)
	}
}

// twice tries once more what failed, and is part of a way back.
func twice(f func() error) error {
	if f() == nil {
		return nil
	}
	return f()
}
