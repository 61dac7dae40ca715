package node

import (
	"context"
	"errors"
	"slices"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// free returns nil when every module of the driver could be unloaded, else an *InUseError that
// names the holders. Our own daemons do not count: they are stopped first.
func (n *Node) free(ctx context.Context) error {
	var ours []int
	if n.daemons != nil {
		ours = n.daemons.PIDs()
	}
	holders, err := n.Kernel.Holders(ctx, func(pid int) bool { return slices.Contains(ours, pid) })
	if err != nil {
		return err
	}
	// then the modules stay, and the host's own programs do not use our root
	byHost := n.driver.Source == status.FromHost
	holders = slices.DeleteFunc(
		holders,
		func(h kmod.Holder) bool { return byHost && h.Container == "" && h.Pod == "" },
	)
	if len(holders) > 0 {
		return &modules.InUseError{Holders: holders}
	}
	if byHost {
		return nil
	}
	if len(ours) > 0 { // they raise the counts too, and their part cannot be distinguished
		return nil
	}
	stack, err := n.stack().Loaded("nvidia")
	if err != nil {
		return err
	}
	if err := modules.Unreferenced(stack); err != nil {
		return n.nameLoaders(stack, n.driver, err)
	}
	return nil
}

// removable returns nil when the modules that have to go for the wanted driver could be unloaded, else an
// *InUseError that names the holders: of an adopted driver only those of the modules that differ.
func (n *Node) removable(ctx context.Context) error {
	if !n.loaded.Adopted {
		return n.free(ctx)
	}
	stack, err := n.stack().Loaded(n.loaded.Differing...)
	if err == nil {
		err = modules.Unreferenced(stack)
	}
	busy, ok := errors.AsType[*modules.InUseError](err)
	if !ok {
		return err
	}
	all, err := n.Kernel.Holders(ctx, func(int) bool { return false })
	busy.Holders = slices.DeleteFunc(
		slices.Clone(all),
		func(h kmod.Holder) bool { return !h.Holds(busy.Module) },
	)
	if len(busy.Holders) == 0 { // under names that do not show the module
		busy.Holders = all
	}
	return errors.Join(busy, err)
}

// unload removes every module that uses nvidia, then nvidia, then the modules of the kernel that
// were loaded for it.
func (n *Node) unload(ctx context.Context, d status.Driver) error {
	stack, err := n.stack().Loaded("nvidia")
	if err != nil {
		return err
	}
	_, err = n.stack().Delete(ctx, stack, d)
	err = n.nameLoaders(stack, d, err)
	if err != nil {
		return err
	}
	n.sweepCompanions(ctx)
	n.stack().DeleteInTree(ctx, d.InTree)
	n.removeNodes(d.Nodes)
	n.prev = nil // nothing of it is left
	return nil
}

func (n *Node) sweepCompanions(ctx context.Context) {
	err := twice(func() error { return n.group().Sweep(ctx) })
	if err != nil {
		n.warn("%v", err)
	}
}

// removeNodes only warns if it fails: a device file without a driver harms nobody.
func (n *Node) removeNodes(nodes []devices.Node) {
	if err := twice(func() error { return n.Hardware.RemoveNodes(nodes) }); err != nil {
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
