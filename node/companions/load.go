package companions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// Kernel has the operations on the kernel's modules that companions need. Names are those of /proc/modules.
type Kernel interface {
	Module(name string) (kmod.Module, error)
	Params(name string) (map[string]string, error)
	Insert(ctx context.Context, path string, params []string) error
	Delete(ctx context.Context, name string) error
}

// Group is the companions of one driver on this node.
type Group struct {
	Kernel  Kernel
	Wanted  []string // names as in driverinfo: "nvidia-fs"
	Info    driverinfo.Description
	Flavour string      // of the driver that is loaded
	Set     *kbuild.Set // the modules of that driver; nil: not known
	Options kmod.Options
	// Toolkit: a Driver Toolkit container compiles what the image has the sources of.
	Toolkit bool
	// Holders returns the processes that have devices of the driver open, Programs those that run a program.
	Holders  func(ctx context.Context, except func(pid int) bool) ([]kmod.Holder, error)
	Programs func(name string) []kmod.Holder
}

// Is reports whether a module of the kernel is a companion that a Group loads.
func Is(module string) bool { return status.Module{Name: module}.Companion() }

// Split returns the modules of the driver itself, and the companions.
func Split(modules []status.Module) (driver, companions []status.Module) {
	for _, m := range modules {
		if m.Companion() {
			companions = append(companions, m)
		} else {
			driver = append(driver, m)
		}
	}
	return driver, companions
}

// Compiles reports whether a wanted companion can be compiled for the driver, here or in a Driver Toolkit
// container.
func (g Group) Compiles() bool {
	return (g.Info.Toolchain || g.Toolkit) && slices.ContainsFunc(g.Wanted, func(name string) bool {
		c, ok := g.Info.Companion(name)
		return ok && c.Sources != "" && c.Fits(g.Flavour)
	})
}

// Load loads the wanted companions that are not loaded, and replaces those that an instance loaded and that
// differ, if no program uses them. It unloads companions that an earlier instance loaded and that are not
// wanted any more. modules is the record of what is loaded, which Load changes by record before it loads a
// module. The result says for each companion whether it is as it was asked for.
func (g Group) Load(ctx context.Context, modules []status.Module, record func([]status.Module)) (states []status.Companion) {
	for _, name := range driverinfo.Companions() {
		if ctx.Err() != nil {
			return states
		}
		b := bringing{g, kmod.ModuleName(name), modules, record}
		st := status.Companion{Name: name}
		var err error
		if slices.Contains(g.Wanted, name) {
			err = b.bring(ctx, name)
		} else {
			err = b.retire(ctx)
		}
		modules = b.modules
		if err != nil {
			st.Reason = err.Error()
		}
		if g.describe(&st, modules); st.Loaded || slices.Contains(g.Wanted, name) {
			states = append(states, st)
		}
	}
	return states
}

// describe adds to a state what the kernel says.
func (g Group) describe(st *status.Companion, modules []status.Module) (live kmod.Module) {
	live, err := g.Kernel.Module(kmod.ModuleName(st.Name))
	if err != nil {
		return live
	}
	st.Loaded, st.Version, st.SrcVersion = true, live.Version, live.SrcVersion
	st.Foreign = !slices.ContainsFunc(modules, func(m status.Module) bool { return m.Name == live.Name && m.SrcVersion == live.SrcVersion })
	return live
}

// bringing is the work on one companion.
type bringing struct {
	Group
	module  string // name in the kernel
	modules []status.Module
	record  func([]status.Module)
}

// set changes the record: it has m for the companion, or nothing if m is nil.
func (b *bringing) set(m *status.Module) {
	b.modules = slices.DeleteFunc(slices.Clone(b.modules), func(o status.Module) bool { return o.Name == b.module })
	if m != nil {
		b.modules = append(b.modules, *m)
	}
	b.record(b.modules)
}

// recorded returns the module that an instance loaded, if it is still that build.
func (b *bringing) recorded(live kmod.Module) *status.Module {
	for _, m := range b.modules {
		if m.Name == b.module && m.SrcVersion == live.SrcVersion {
			return &m
		}
	}
	return nil
}

// bring makes sure that the wanted companion is loaded; the error says why it is not.
func (b *bringing) bring(ctx context.Context, name string) error {
	want, missing := b.file(name)
	live, err := b.Kernel.Module(b.module)
	switch {
	case errors.Is(err, fs.ErrNotExist) && want == nil:
		b.set(nil)
		return missing
	case errors.Is(err, fs.ErrNotExist):
		return b.insert(ctx, want)
	case err != nil:
		return err
	}
	ours := b.recorded(live)
	switch {
	case want != nil && live.SrcVersion == want.SrcVersion && b.same(ours, want):
		if ours == nil {
			b.set(want)
		}
		return nil
	case ours == nil:
		return b.foreign(live, want)
	case want == nil:
		return fmt.Errorf("%s %s of an earlier start stays loaded: %w", name, live.Version, missing)
	}
	if err := b.delete(ctx, live); err != nil {
		return fmt.Errorf("%s %s is to be replaced by %s, which waits: %w", name, live.Version, want.Version, err)
	}
	if err := b.insert(ctx, want); err != nil {
		if back := b.insert(context.WithoutCancel(ctx), ours); back != nil {
			return errors.Join(err, fmt.Errorf("load the previous one again: %w", back))
		}
		return err
	}
	return nil
}

// file returns the companion of the set, or why it has none.
func (b *bringing) file(name string) (*status.Module, error) {
	info, known := b.Info.Companion(name)
	if !known {
		return nil, fmt.Errorf("this image has no %s: build it with driver-build --companions %s, or leave %s off", name, name, flagOf(name))
	}
	if b.Set == nil {
		return nil, fmt.Errorf("the modules of the loaded driver are not at hand, so %s %s is not either", name, info.Version)
	}
	f, ok := b.Set.File(name)
	if !ok {
		if reason := b.Set.OmittedReason(name); reason != "" {
			return nil, fmt.Errorf("the modules for kernel %s have no %s %s: %s", b.Set.Key.Release, name, info.Version, reason)
		}
		if !info.Fits(b.Flavour) {
			return nil, fmt.Errorf("%s %s is for the %s kernel modules, and the %s ones are loaded: set KERNEL_MODULE_TYPE, or leave %s off",
				name, info.Version, strings.Join(info.Flavours, " and "), b.Flavour, flagOf(name))
		}
		return nil, fmt.Errorf("the modules for kernel %s have no %s: use an image that was built with it", b.Set.Key.Release, name)
	}
	params := b.Options.For(b.module)
	if err := f.Info.CheckParams(params); err != nil {
		return nil, fmt.Errorf("%w; correct %s.conf in the folder of module parameters or /etc/modprobe.d", err, name)
	}
	return &status.Module{Name: b.module, Version: f.Info.Version, SrcVersion: f.Info.SrcVersion, File: f.Path, SHA256: f.SHA256, Params: params}, nil
}

// same reports whether the loaded companion has the wanted parameters.
func (b *bringing) same(ours, want *status.Module) bool {
	if ours != nil && !slices.Equal(ours.Params, want.Params) {
		return false
	}
	shown, err := b.Kernel.Params(b.module)
	return err != nil || len(kmod.Differences(want.Params, shown)) == 0
}

func (b *bringing) insert(ctx context.Context, m *status.Module) error {
	b.set(m)
	err := b.Kernel.Insert(ctx, m.File, m.Params)
	if err == nil {
		return nil
	}
	live, lost := b.Kernel.Module(b.module)
	if errors.Is(err, kmod.ErrLoaded) && lost == nil && live.SrcVersion == m.SrcVersion {
		return nil
	}
	b.set(nil)
	return fmt.Errorf("load %s: %w", m.Name, err)
}

// delete unloads a companion that no program uses.
func (b *bringing) delete(ctx context.Context, live kmod.Module) error {
	err := kmod.ErrInUse
	if live.Refs <= 0 {
		err = b.Kernel.Delete(ctx, b.module)
	}
	if errors.Is(err, kmod.ErrInUse) {
		return fmt.Errorf("%s is in use%s", b.module, b.users(ctx, b.module))
	}
	return err
}

// foreign explains a companion that another program loaded. It stays: taking it away from that program would
// only make it load it again.
func (b *bringing) foreign(live kmod.Module, want *status.Module) error {
	text := b.loadedBy(live)
	if want == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%s, and this image's %s is not loaded: switch one of them off", text, want.Version)
}

// retire unloads a companion that an earlier instance loaded and that is not wanted any more.
func (b *bringing) retire(ctx context.Context) error {
	live, err := b.Kernel.Module(b.module)
	if errors.Is(err, fs.ErrNotExist) {
		if modules.Named(b.modules, b.module) {
			b.set(nil)
		}
		return nil
	}
	if err != nil || b.recorded(live) == nil {
		return err
	}
	if err := b.delete(ctx, live); err != nil {
		return fmt.Errorf("it is not asked for any more and stays until the driver goes: %w", err)
	}
	b.set(nil)
	return nil
}

// Sweep unloads what another program loaded while the driver was being unloaded. nvidia_fs needs nothing of
// nvidia to be loaded, so the kernel lets both happen.
func (g Group) Sweep(ctx context.Context) error {
	var errs []error
	for _, name := range driverinfo.Companions() {
		module := kmod.ModuleName(name)
		if _, err := g.Kernel.Module(module); err != nil {
			continue
		}
		if err := g.Kernel.Delete(ctx, module); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s was loaded while the driver was unloaded, and stays without it: %w", module, err))
		}
	}
	return errors.Join(errs...)
}
