package node

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

// inTree are modules of the kernel that the driver uses without naming them: NVIDIA's own container loads
// them, too.
var inTree = []string{"i2c_core", "ipmi_msghandler", "ipmi_devintf"}

// load loads the modules into the kernel; those of an adopted driver are loaded already.
func (n *Node) load(ctx context.Context) error {
	if !n.adopted {
		if err := n.insert(ctx); err != nil {
			return err
		}
		n.up = append(n.up, n.modulesStep())
	}
	n.showDriver()
	if n.adopted || !n.fresh {
		return nil
	}
	return n.keep(ctx)
}

func (n *Node) modulesStep() step {
	return step{name: modulesStep, down: func(ctx context.Context) error { return n.unload(ctx, n.driver) }}
}

const modulesStep = "modules"

// takeOver takes over a predecessor's record of the driver.
func (n *Node) takeOver() {
	root, firmware := n.driver.RootDir, n.driver.Firmware
	if n.prev != nil && n.prev.Version != "" {
		n.driver = *n.prev
	} else { // another program loaded it, the same build: found describes it
		n.driver = status.Driver{Modules: n.files(), Signer: n.found.SignedBy()}
	}
	n.driver.Version, n.driver.Flavour, n.driver.RootID = n.want.Driver, n.want.Flavour, n.info.ID
	n.driver.RootDir, n.driver.Firmware = root, firmware
	if n.driver.Source == "" {
		n.driver.Source = status.Adopted
	}
}

// files returns the modules to load, of those that were found.
func (n *Node) files() []status.Module {
	var out []status.Module
	for _, name := range n.want.Modules {
		if f, ok := n.found.File(name); ok {
			m := underscores(name)
			out = append(out, status.Module{Name: m, SrcVersion: f.Info.SrcVersion, File: f.Path, SHA256: f.SHA256, Params: n.options.For(m)})
		}
	}
	return out
}

func (n *Node) insert(ctx context.Context) error {
	names := slices.Clone(inTree)
	for _, name := range n.want.Modules {
		f, ok := n.found.File(name)
		if !ok {
			return fmt.Errorf("the set of modules (%s) has no %s", n.source, name)
		}
		for _, dep := range f.Info.Depends {
			if !strings.HasPrefix(dep, "nvidia") {
				names = append(names, dep)
			}
		}
	}
	inserted, err := n.kernel.InsertInTree(ctx, names...)
	n.driver = status.Driver{Version: n.want.Driver, Flavour: n.want.Flavour, Source: n.source, Signer: n.found.SignedBy(), Modules: n.files(), InTree: inserted,
		RootID: n.info.ID, RootDir: n.driver.RootDir, Firmware: n.driver.Firmware}
	if err == nil {
		err = n.insertAll(ctx, n.driver.Modules)
	}
	if err == nil {
		if err = n.check(); err != nil {
			err = errors.Join(err, n.deleteAll(context.WithoutCancel(ctx), n.driver.Modules))
		}
	}
	switch {
	case errors.Is(err, errRemains): // the stop tries again, with all modules that use them
		n.up = append(n.up, n.modulesStep())
	case err != nil:
		n.removeInTree(ctx, n.driver.InTree)
	}
	return err
}

// insertAll loads modules in order; when one is refused, those before it are removed again.
func (n *Node) insertAll(ctx context.Context, modules []status.Module) error {
	for i, m := range modules {
		if err := n.insertOne(ctx, m); err != nil {
			undo := n.deleteAll(context.WithoutCancel(ctx), modules[:i])
			return errors.Join(fmt.Errorf("load %s: %w", m.Name, err), undo)
		}
	}
	return nil
}

func (n *Node) insertOne(ctx context.Context, m status.Module) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := n.kernel.Insert(ctx, m.File, m.Params)
	if !errors.Is(err, kmod.ErrLoaded) {
		return err
	}
	live, err := n.kernel.Module(m.Name) // another program was faster: fine if it is the same build
	if err == nil && live.SrcVersion != m.SrcVersion {
		err = fmt.Errorf("another build of it is loaded already (srcversion %s, this one has %s)", live.SrcVersion, m.SrcVersion)
	}
	return err
}

// errRemains marks a load that could not be undone, because somebody already used what had been loaded.
var errRemains = errors.New("half of the modules remain")

// deleteAll removes modules, last first; a module that is not loaded is no error.
func (n *Node) deleteAll(ctx context.Context, modules []status.Module) error {
	var errs []error
	for _, m := range slices.Backward(modules) {
		if err := n.kernel.Delete(ctx, m.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%w: remove %s again: %w", errRemains, m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// check compares the loaded modules with those that were to be loaded.
func (n *Node) check() error {
	for _, m := range n.driver.Modules {
		live, err := n.kernel.Module(m.Name)
		switch {
		case err != nil:
			return fmt.Errorf("verify %s after loading it: %w", m.Name, err)
		case foreign(live, n.want.Driver) || live.SrcVersion != m.SrcVersion:
			return fmt.Errorf("verify %s after loading it: version %s and srcversion %s are live, %s and %s were loaded",
				m.Name, live.Version, live.SrcVersion, n.want.Driver, m.SrcVersion)
		}
		if diff := n.paramsDiffer(m.Name, m.Params); len(diff) > 0 {
			return fmt.Errorf("verify %s after loading it: parameters are not as they were given: %s", m.Name, strings.Join(diff, ", "))
		}
	}
	return nil
}

// foreign reports whether a loaded module belongs to another driver. The nvidia-uvm of 470 and of older
// drivers has no version.
func foreign(m kmod.Module, driver string) bool {
	return m.Version != driver && (m.Version != "" || m.Name == "nvidia")
}

// keep puts modules that were compiled or signed here into the cache after they have been loaded, and records
// those files instead.
func (n *Node) keep(ctx context.Context) error {
	set, err := n.supplier.Keep(ctx, n.found)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.warn("the modules were made here and loaded but could not be kept, the next start makes them again: %v", err)
		return nil
	}
	n.found, n.fresh = set, false
	n.driver.Modules = n.files()
	n.showDriver()
	return nil
}

func (n *Node) showDriver() {
	d := n.driver
	n.status.Change(func(st *status.Snapshot) { st.Up = &d })
}
