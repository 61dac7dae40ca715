package modules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// Free returns nil when every module of a driver could be unloaded, else an *InUseError that names
// the holders. The instance's own daemons (ours) do not count: they are stopped first.
func (s Stack) Free(ctx context.Context, d status.Driver, ours []int) error {
	holders, err := s.Kernel.Holders(ctx, ours...)
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
		return &InUseError{Holders: holders}
	}
	// daemons raise the counts of the modules too, and their part cannot be distinguished
	if byHost || len(ours) > 0 {
		return nil
	}
	stack, err := s.Loaded("nvidia")
	if err != nil {
		return err
	}
	return noted(unreferenced(stack), foreign(stack, d.Modules))
}

// Unload removes every module that uses nvidia, then nvidia, then the modules of the kernel that
// were loaded for it. notes says which of them other programs had loaded.
func (s Stack) Unload(ctx context.Context, d status.Driver) (notes string, err error) {
	stack, err := s.Loaded("nvidia")
	if err != nil {
		return "", err
	}
	notes = foreign(stack, d.Modules)
	_, err = s.Delete(ctx, stack, d)
	if err != nil {
		return "", noted(err, notes)
	}
	s.Sweep(ctx, d.InTree)
	return notes, nil
}

// noted adds to the error of a driver in use which companions other programs loaded, because their
// containers have to end first.
func noted(err error, notes string) error {
	busy, inUse := errors.AsType[*InUseError](err)
	if inUse {
		busy.Note = notes
	}
	return err
}

// Sweep removes what the driver's modules leave behind, also after a signal: companions, and
// modules of the kernel that were loaded for them.
func (s Stack) Sweep(ctx context.Context, inTree []string) {
	ctx = context.WithoutCancel(ctx)
	err := s.sweepCompanions(ctx)
	if err != nil {
		err = s.sweepCompanions(ctx)
	}
	if err != nil {
		s.Warn("%v", err)
	}
	s.DeleteInTree(ctx, inTree)
}

// sweepCompanions unloads what another program loaded while the driver was being unloaded; if the
// driver is loaded it does nothing. nvidia_fs needs nothing of nvidia to be loaded, so the kernel
// lets both happen.
func (s Stack) sweepCompanions(ctx context.Context) error {
	_, err := s.Kernel.Module("nvidia")
	if err == nil {
		return nil
	}
	var errs []error
	for _, name := range driverinfo.Companions() {
		module := kmod.ModuleName(name)
		_, err := s.Kernel.Module(module)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err = s.Kernel.Delete(ctx, module)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s was loaded while the driver was unloaded, "+
				"and stays without it: %w", module, err))
		}
	}
	return errors.Join(errs...)
}
