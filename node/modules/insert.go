// Package modules compiles the modules of an image's driver on a machine, and loads and unloads
// them as one stack: all of them go in or none, all of them go out or none. If the kernel refuses
// one half way, the others are put back. Beside them stand companions (nvidia-fs, gdrdrv,
// nvidia-peermem), which no driver fails for.
//
// The package does not decide which modules a driver needs, or when they may go; it keeps no record
// of its own.
package modules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/status"
)

// Kernel has the operations on the kernel's modules that a stack needs. Names are those of
// /proc/modules.
type Kernel interface {
	Module(name string) (kmod.Module, error)
	Stack(name string) ([]kmod.Module, error)
	Params(name string) (map[string]string, error)
	Insert(ctx context.Context, path, digest string, params []string) error
	Delete(ctx context.Context, name string) error
	Holders(ctx context.Context, except ...int) ([]kmod.Holder, error)
}

// Stack is a kernel with modules that stand on each other.
type Stack struct {
	Kernel Kernel
	Warn   func(format string, args ...any) // for what is wrong, but no reason to fail
}

// Insert loads modules in order; when one is refused, those before it are removed again.
func (s Stack) Insert(ctx context.Context, modules []status.Module) error {
	for i, m := range modules {
		if err := s.insertOne(ctx, m); err != nil {
			undo := s.Remove(context.WithoutCancel(ctx), modules[:i])
			return errors.Join(fmt.Errorf("load %s: %w", m.Name, err), undo)
		}
	}
	return nil
}

func (s Stack) insertOne(ctx context.Context, m status.Module) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.Kernel.Insert(ctx, m.File, m.SHA256, m.Params)
	if !errors.Is(err, kmod.ErrLoaded) {
		return err
	}
	live, err := s.Kernel.Module(m.Name) // another program was faster: fine if it is the same build
	if err != nil || live.SrcVersion == m.SrcVersion {
		return err
	}
	return fmt.Errorf("another build of it is loaded already (srcversion %s, this one has %s)",
		live.SrcVersion, m.SrcVersion)
}

// ErrRemains marks a load that could not be undone, because a program already used what had been
// loaded.
var ErrRemains = errors.New("half of the modules remain")

// Remove removes modules, last first; a module that is not loaded is no error.
func (s Stack) Remove(ctx context.Context, modules []status.Module) error {
	var errs []error
	for _, m := range slices.Backward(modules) {
		if err := s.Kernel.Delete(ctx, m.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%w: remove %s again: %w", ErrRemains, m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// PutBack loads removed modules again, the lowest one first. For modules that are not ours there is
// only a warning: their files are not known.
func (s Stack) PutBack(ctx context.Context, d status.Driver, removed []string) error {
	for _, name := range removed {
		if !Named(d.Modules, name) {
			s.Warn(
				"module %s, which stood on the driver, was removed before the kernel refused another one; whoever loaded it must load it again",
				name,
			)
		}
	}
	var errs []error
	for _, m := range d.Modules {
		if !slices.Contains(removed, m.Name) {
			continue
		}
		err := s.putBack(ctx, m)
		if err != nil { // nothing else is left to try
			err = s.putBack(ctx, m)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("load %s again: %w", m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// putBack loads a module from the file that it was loaded from, if that is still the same.
func (s Stack) putBack(ctx context.Context, m status.Module) error {
	err := CheckFiles([]status.Module{m})
	if err != nil {
		return err
	}
	return s.insertOne(ctx, m)
}

// Named reports whether a module of this name is among them.
func Named(modules []status.Module, name string) bool {
	_, found := status.Named(modules, name)
	return found
}

// CheckFiles returns an error if the module files of an earlier instance have changed since it
// loaded them.
func CheckFiles(modules []status.Module) error {
	for _, m := range modules {
		sum, _, err := kbuild.Digest(m.File)
		switch {
		case err != nil:
			return err
		case sum != m.SHA256:
			return fmt.Errorf(
				"%s has sha256 %s, it had %s when it was verified; remove it and start again",
				m.File,
				sum,
				m.SHA256,
			)
		}
	}
	return nil
}
