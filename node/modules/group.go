package modules

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
	"github.com/driver-container/driver-container/node/status"
)

// Group is the companions of one driver on this node. Modules that other programs loaded it leaves
// alone.
type Group struct {
	Kernel  Kernel
	Wanted  []string // names as in driverinfo: "nvidia-fs"
	Info    driverinfo.Description
	Flavour string      // of the driver that is loaded
	Set     *kbuild.Set // the modules of that driver; nil: not known
	Options kmod.Options
	// Toolkit: a Driver Toolkit container compiles what the image has the sources of.
	Toolkit bool
}

// Compiles reports whether a wanted companion can be compiled for the driver, here or in a Driver
// Toolkit container.
func (g Group) Compiles() bool {
	return (g.Info.Toolchain || g.Toolkit) && slices.ContainsFunc(g.Wanted, func(name string) bool {
		c, ok := g.Info.Companion(name)
		return ok && c.Sources != "" && c.Fits(g.Flavour)
	})
}

// Load loads the wanted companions that are not loaded, and replaces those that an instance loaded
// and that differ, if no program uses them. It unloads companions that an earlier instance loaded
// and that are not wanted any more. modules is the record of what is loaded, which Load changes by
// record before it loads a module. The result says for each companion whether it is as it was asked
// for.
func (g Group) Load(ctx context.Context, modules []status.Module, record func([]status.Module)) (states []status.Companion) {
	for _, name := range driverinfo.Companions() {
		if ctx.Err() != nil {
			return states
		}
		c := change{Group: g, module: kmod.ModuleName(name), modules: modules, record: record}
		st := status.Companion{Name: name}
		var err error
		if slices.Contains(g.Wanted, name) {
			err = c.load(ctx, name)
		} else {
			err = c.unload(ctx)
		}
		modules = c.modules
		st.InUse = c.inUse
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
	st.Loaded = true
	st.Version = live.Version
	st.SrcVersion = live.SrcVersion
	ours, _ := status.Named(modules, live.Name)
	st.Foreign = ours.Name == "" || ours.SrcVersion != live.SrcVersion
	return live
}

// change is the work on one companion.
type change struct {
	Group
	module  string // name in the kernel
	modules []status.Module
	record  func([]status.Module)
	inUse   bool // the module could not be unloaded because of its users
}

// set changes the record: it has m for the companion, or nothing if m is nil.
func (c *change) set(m *status.Module) {
	c.modules = slices.DeleteFunc(slices.Clone(c.modules), func(o status.Module) bool { return o.Name == c.module })
	if m != nil {
		c.modules = append(c.modules, *m)
	}
	c.record(c.modules)
}

// recorded returns the module that an instance loaded, if it is still that build.
func (c *change) recorded(live kmod.Module) *status.Module {
	m, found := status.Named(c.modules, c.module)
	if !found || m.SrcVersion != live.SrcVersion {
		return nil
	}
	return &m
}

// load makes sure that the wanted companion is loaded; the error says why it is not.
func (c *change) load(ctx context.Context, name string) error {
	want, missing := c.file(name)
	live, err := c.Kernel.Module(c.module)
	switch {
	case errors.Is(err, fs.ErrNotExist) && want == nil:
		c.set(nil)
		return missing
	case errors.Is(err, fs.ErrNotExist):
		return c.insert(ctx, want)
	case err != nil:
		return err
	}
	ours := c.recorded(live)
	switch {
	case want != nil && live.SrcVersion == want.SrcVersion && c.same(ours, want):
		if ours == nil {
			c.set(want)
		}
		return nil
	case ours == nil:
		return c.loadedByOther(live, want)
	case want == nil:
		return fmt.Errorf("%s %s of an earlier start stays loaded: %w", name, live.Version, missing)
	}
	if err := c.delete(ctx, live); err != nil {
		return fmt.Errorf("%s %s is to be replaced by %s, which waits: %w", name, live.Version, want.Version, err)
	}
	if err := c.insert(ctx, want); err != nil {
		if back := c.insert(context.WithoutCancel(ctx), ours); back != nil {
			return errors.Join(err, fmt.Errorf("load the previous one again: %w", back))
		}
		return err
	}
	return nil
}

// file returns the companion of the set, or why it has none.
func (c *change) file(name string) (*status.Module, error) {
	if reason, fix := c.missing(name); reason != "" {
		return nil, fmt.Errorf("%s; %s", reason, fix)
	}
	if c.Set == nil {
		return nil, fmt.Errorf("the modules of the loaded driver are not at hand, so %s is not either", name)
	}
	f, _ := c.Set.File(name)
	params := c.Options.For(c.module)
	if err := f.Info.CheckParams(params); err != nil {
		return nil, fmt.Errorf("%w; correct %s.conf in the folder of module parameters or /etc/modprobe.d", err, name)
	}
	return &status.Module{Name: c.module, Version: f.Info.Version, SrcVersion: f.Info.SrcVersion, File: f.Path, SHA256: f.SHA256, Params: params}, nil
}

// same reports whether the loaded companion has the wanted parameters.
func (c *change) same(ours, want *status.Module) bool {
	if ours != nil && !slices.Equal(ours.Params, want.Params) {
		return false
	}
	shown, err := c.Kernel.Params(c.module)
	return err != nil || len(kmod.Differences(want.Params, shown)) == 0
}

func (c *change) insert(ctx context.Context, m *status.Module) error {
	c.set(m)
	err := Stack{Kernel: c.Kernel}.insertOne(ctx, *m)
	if err != nil {
		c.set(nil)
		err = fmt.Errorf("load %s: %w", m.Name, err)
	}
	return err
}

// delete unloads a companion that no program uses.
func (c *change) delete(ctx context.Context, live kmod.Module) error {
	err := kmod.ErrInUse
	if live.Refs <= 0 {
		err = c.Kernel.Delete(ctx, c.module)
	}
	if !errors.Is(err, kmod.ErrInUse) {
		return err
	}
	c.inUse = true
	holders, err := c.Kernel.Holders(ctx)
	holders = slices.DeleteFunc(holders, func(h kmod.Holder) bool { return !h.Holds(c.module) })
	if err != nil || len(holders) == 0 {
		return fmt.Errorf("%s is in use", c.module)
	}
	return fmt.Errorf("%s is in use by %s", c.module, processes(holders))
}

// loadedByOther explains a companion that another program loaded. It stays: taking it away from that
// program would only make it load it again.
func (c *change) loadedByOther(live kmod.Module, want *status.Module) error {
	text := loadedBy(live)
	if want == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%s, and this image's %s is not loaded: switch one of them off", text, want.Version)
}

// loadedBy says that another program loaded a companion. The kernel does not tell which.
func loadedBy(live kmod.Module) string {
	return fmt.Sprintf("%s %s was loaded by another program, perhaps by a sidecar of the GPU Operator (gds, gdrcopy)", live.Name, live.Version)
}

// foreign says which of the loaded companions another program loaded; "" if there are none.
func foreign(stack []kmod.Module, recorded []status.Module) string {
	var notes []string
	for _, m := range stack {
		if (status.Module{Name: m.Name}).Companion() && !Named(recorded, m.Name) {
			notes = append(notes, loadedBy(m))
		}
	}
	return strings.Join(notes, "; ")
}

// unload unloads a companion that an earlier instance loaded and that is not wanted any more.
func (c *change) unload(ctx context.Context) error {
	live, err := c.Kernel.Module(c.module)
	if errors.Is(err, fs.ErrNotExist) {
		if Named(c.modules, c.module) {
			c.set(nil)
		}
		return nil
	}
	if err != nil || c.recorded(live) == nil {
		return err
	}
	if err := c.delete(ctx, live); err != nil {
		return fmt.Errorf("it is not asked for any more and stays until the driver goes: %w", err)
	}
	c.set(nil)
	return nil
}
