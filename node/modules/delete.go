package modules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// Loaded returns loaded modules and all that use them, in an order in which they can be unloaded.
func (s Stack) Loaded(names ...string) (all []kmod.Module, err error) {
	for _, name := range names {
		stack, err := s.Kernel.Stack(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(all, stack...)
	}
	return all, nil
}

// unreferenced compares the count of each module with the number of modules that use it. A higher
// count means that something else uses the module.
func unreferenced(stack []kmod.Module) error {
	for _, m := range stack {
		if m.Refs > len(m.Holders) {
			return &InUseError{Module: m.Name}
		}
	}
	return nil
}

// Removable returns nil when modules and all that use them could be unloaded, else an *InUseError
// that names the holders.
func (s Stack) Removable(ctx context.Context, names ...string) error {
	stack, err := s.Loaded(names...)
	if err != nil {
		return err
	}
	busy, inUse := errors.AsType[*InUseError](unreferenced(stack))
	if !inUse {
		return nil
	}
	all, err := s.Kernel.Holders(ctx)
	busy.Holders = slices.DeleteFunc(slices.Clone(all), func(h kmod.Holder) bool {
		return !h.Holds(busy.Module)
	})
	if len(busy.Holders) == 0 { // under names that do not show the module
		busy.Holders = all
	}
	return errors.Join(busy, err)
}

// Delete removes modules of a driver. When the kernel refuses to remove one half way, the removed
// ones are loaded again: all of them are removed, or none.
func (s Stack) Delete(
	ctx context.Context,
	stack []kmod.Module,
	d status.Driver,
) (removed []string, err error) {
	if err := unreferenced(stack); err != nil {
		return nil, err
	}
	for _, m := range stack {
		err := s.Kernel.Delete(ctx, m.Name)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			removed = append(removed, m.Name)
			continue
		}
		back := s.PutBack(context.WithoutCancel(ctx), d, removed)
		if errors.Is(err, kmod.ErrInUse) {
			holders, scan := s.Kernel.Holders(ctx)
			return nil, errors.Join(&InUseError{Holders: holders, Module: m.Name}, scan, back)
		}
		return nil, errors.Join(fmt.Errorf("unload %s: %w", m.Name, err), back)
	}
	return removed, nil
}

// DeleteInTree removes modules of the kernel that were loaded for the driver, except those that
// others use now. It does so also after a signal, which has cancelled the context of a start.
func (s Stack) DeleteInTree(ctx context.Context, names []string) {
	ctx = context.WithoutCancel(ctx)
	for _, name := range slices.Backward(names) {
		err := s.Kernel.Delete(ctx, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, kmod.ErrInUse) {
			s.Warn("remove %s, which had been loaded for the driver: %v", name, err)
		}
	}
}

// InUseError says that the driver cannot be unloaded, and who holds it.
type InUseError struct {
	Holders []kmod.Holder // empty: something inside of the kernel
	// the module that was refused or has references without a known holder; may be empty
	Module string
	Note   string // who loaded the module, if it was not this program; may be empty
}

func (e *InUseError) Error() string {
	// NVIDIA's own container prints the first sentence; people search their logs for it.
	text := "Could not unload NVIDIA driver kernel modules, driver is in use"
	if len(e.Holders) > 0 {
		text += " by " + processes(e.Holders) + ". Stop these processes, or delete their pods"
	} else {
		text += fmt.Sprintf(": no process has its device files open, yet module %s has references "+
			"(a kernel module or a mapping of a process that this container cannot see: "+
			"run with hostPID)", e.Module)
	}
	if e.Note != "" {
		text += ". " + e.Note
	}
	return text
}

// processes names the first of some processes.
func processes(holders []kmod.Holder) string {
	const most = 8
	var names []string
	for _, h := range holders[:min(most, len(holders))] {
		names = append(names, h.String())
	}
	if more := len(holders) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, "; ")
}
