package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

// free returns nil when every module of the driver could be unloaded, else an *InUseError that names the
// holders. Our own daemons do not count: they are stopped first.
func (n *Node) free(ctx context.Context) error {
	var ours []int
	if n.daemons != nil {
		ours = n.daemons.PIDs()
	}
	holders, err := n.kernel.Holders(ctx, func(pid int) bool { return slices.Contains(ours, pid) })
	if err != nil {
		return err
	}
	if len(holders) > 0 {
		return &InUseError{Holders: holders}
	}
	if len(ours) > 0 { // they raise the counts too, and their part cannot be distinguished
		return nil
	}
	stack, err := n.stack("nvidia")
	if err != nil {
		return err
	}
	return unreferenced(stack)
}

// removable returns nil when the modules that have to go for the wanted driver could be unloaded, else an
// *InUseError that names the holders: of an adopted driver only those of the modules that differ.
func (n *Node) removable(ctx context.Context) error {
	if !n.loaded.Adopted {
		return n.free(ctx)
	}
	stack, err := n.stack(n.loaded.Differing...)
	if err == nil {
		err = unreferenced(stack)
	}
	busy, ok := errors.AsType[*InUseError](err)
	if !ok {
		return err
	}
	all, err := n.kernel.Holders(ctx, func(int) bool { return false })
	busy.Holders = slices.DeleteFunc(slices.Clone(all), func(h kmod.Holder) bool { return !h.Holds(busy.Module) })
	if len(busy.Holders) == 0 { // under names that do not show the module
		busy.Holders = all
	}
	return errors.Join(busy, err)
}

// stack returns loaded modules and all that use them, in an order in which they can be unloaded.
func (n *Node) stack(names ...string) (all []kmod.Module, err error) {
	for _, name := range names {
		stack, err := n.kernel.Stack(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(all, stack...)
	}
	return all, nil
}

// unreferenced compares the count of each module with the number of modules that use it. A higher count means
// that something else uses the module.
func unreferenced(stack []kmod.Module) error {
	for _, m := range stack {
		if m.Refs > len(m.Holders) {
			return &InUseError{Module: m.Name}
		}
	}
	return nil
}

// unload removes every module that uses nvidia, then nvidia, then the modules of the kernel that were loaded
// for it.
func (n *Node) unload(ctx context.Context, d status.Driver) error {
	stack, err := n.stack("nvidia")
	if err != nil {
		return err
	}
	if _, err := n.delete(ctx, stack, d); err != nil {
		return err
	}
	n.removeInTree(ctx, d.InTree)
	n.removeNodes(d.Nodes)
	n.prev = nil // nothing of it is left
	return nil
}

// delete removes modules of a driver. When the kernel refuses to remove one half way, the removed ones are
// loaded again: all of them are removed, or none.
func (n *Node) delete(ctx context.Context, stack []kmod.Module, d status.Driver) (removed []string, err error) {
	if err := unreferenced(stack); err != nil {
		return nil, err
	}
	for _, m := range stack {
		err := n.kernel.Delete(ctx, m.Name)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			removed = append(removed, m.Name)
			continue
		}
		back := n.putBack(context.WithoutCancel(ctx), d, removed)
		if errors.Is(err, kmod.ErrInUse) {
			holders, scan := n.kernel.Holders(ctx, func(int) bool { return false })
			return nil, errors.Join(&InUseError{Holders: holders, Module: m.Name}, scan, back)
		}
		return nil, errors.Join(fmt.Errorf("unload %s: %w", m.Name, err), back)
	}
	return removed, nil
}

// removeNodes only warns if it fails: a device file without a driver harms nobody.
func (n *Node) removeNodes(nodes []devices.Node) {
	err := n.hardware.RemoveNodes(nodes)
	if err != nil {
		err = n.hardware.RemoveNodes(nodes)
	}
	if err != nil {
		n.warn("remove device files: %v", err)
	}
}

// putBack loads removed modules again, the lowest one first. For modules that are not ours there is only a
// warning: their files are not known.
func (n *Node) putBack(ctx context.Context, d status.Driver, removed []string) error {
	for _, name := range removed {
		if !named(d.Modules, name) {
			n.warn("module %s, which stood on the driver, was removed before the kernel refused another one; whoever loaded it must load it again", name)
		}
	}
	var errs []error
	for _, m := range d.Modules {
		if !slices.Contains(removed, m.Name) {
			continue
		}
		if err := n.insertOne(ctx, m); err != nil {
			errs = append(errs, fmt.Errorf("load %s again: %w", m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// removeInTree removes modules of the kernel that were loaded for the driver, except those that others use
// now. It does so also after a signal, which has cancelled the context of a start.
func (n *Node) removeInTree(ctx context.Context, names []string) {
	ctx = context.WithoutCancel(ctx)
	for _, name := range slices.Backward(names) {
		err := n.kernel.Delete(ctx, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, kmod.ErrInUse) {
			n.warn("remove %s, which had been loaded for the driver: %v", name, err)
		}
	}
}

// checkFiles returns an error if the module files of an earlier instance have changed since it loaded them.
func checkFiles(modules []status.Module) error {
	for _, m := range modules {
		sum, _, err := kbuild.Digest(m.File)
		switch {
		case err != nil:
			return err
		case sum != m.SHA256:
			return fmt.Errorf("%s has sha256 %s, it had %s when it was verified; remove it and start again", m.File, sum, m.SHA256)
		}
	}
	return nil
}
