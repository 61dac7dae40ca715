package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// inTree are modules of the kernel that the driver uses without naming them: NVIDIA's own container
// loads them, too.
var inTree = []string{"i2c_core", "ipmi_msghandler", "ipmi_devintf"}

// load loads the modules into the kernel; of an adopted driver only those that it lacks.
func (n *Node) load(ctx context.Context) error {
	err := n.insert(ctx)
	// what remains the stop unloads, with all that use it
	if !n.loaded.Adopted && (err == nil || errors.Is(err, modules.ErrRemains)) {
		n.up = append(n.up, n.modulesStep())
	}
	if err != nil {
		return err
	}
	n.showDriver()
	if !n.fresh {
		return nil
	}
	return n.keep(ctx)
}

func (n *Node) modulesStep() step {
	return step{name: modulesStep, down: func(ctx context.Context) error {
		if n.driver.Source == status.FromHost {
			n.removeNodes(n.driver.Nodes)
			return nil
		}
		return n.unload(ctx, n.driver)
	}}
}

const modulesStep = "modules"

// takeOver takes over a predecessor's record of the driver, as far as it is still true.
func (n *Node) takeOver() {
	n.driver = status.Driver{Signer: n.record.Signer}
	if n.prev != nil && n.prev.Version != "" {
		n.driver = *n.prev
	}
	if n.byHost() {
		n.driver.Modules = n.hostModules()
		n.driver.Source = status.FromHost
	} else {
		n.driver.Modules = stillLoaded(n.Kernel, n.driver.Modules, n.files())
	}
	n.driver.Version = n.want.Driver
	n.driver.Flavour = n.want.Flavour
	if n.driver.Source == "" || n.driver.Source == status.FromHost && !n.byHost() {
		n.driver.Source = status.Adopted
	}
}

// files returns the modules to load, of those that were found.
func (n *Node) files() []status.Module {
	var out []status.Module
	for _, name := range n.want.Modules {
		if n.found == nil {
			break
		}
		if f, ok := n.found.File(name); ok {
			m := underscores(name)
			out = append(
				out,
				status.Module{
					Name:       m,
					SrcVersion: f.Info.SrcVersion,
					File:       f.Path,
					SHA256:     f.SHA256,
					Params:     n.options.For(m),
				},
			)
		}
	}
	return out
}

// insert loads the wanted modules that are not loaded, after it has unloaded those that differ. If
// one is refused, the loaded ones are unloaded and the unloaded ones loaded again. The record has a
// module before it is loaded, so that it is true whenever the instance is killed: what a record
// names need not be loaded.
func (n *Node) insert(ctx context.Context) error {
	if n.loaded.Whole() {
		return nil
	}
	before := n.driver
	differing, err := n.stack().Loaded(n.loaded.Differing...)
	if err != nil {
		return err
	}
	removed, err := n.stack().Delete(ctx, differing, before)
	if err != nil {
		return err
	}
	missing, err := n.missing()
	var inTree []string
	if err == nil && len(missing) > 0 {
		inTree, err = n.Kernel.InsertInTree(ctx, func(name string) {
			n.driver.InTree = append(slices.Clone(n.driver.InTree), name)
			n.showDriver()
		}, n.below(missing)...)
		n.driver.InTree = slices.Concat(before.InTree, inTree)
		kept := slices.DeleteFunc(
			slices.Clone(n.driver.Modules),
			func(m status.Module) bool { return modules.Named(missing, m.Name) },
		)
		n.driver.Modules = append(kept, missing...)
		n.showDriver()
	}
	if err == nil {
		err = n.stack().Insert(ctx, missing)
	}
	if err == nil {
		err = n.check()
		if err != nil {
			err = errors.Join(err, n.stack().Remove(context.WithoutCancel(ctx), missing))
		}
	}
	if err == nil || errors.Is(err, modules.ErrRemains) {
		return err
	}
	n.sweepCompanions(ctx)
	n.stack().DeleteInTree(ctx, inTree)
	n.driver = before
	n.showDriver()
	return errors.Join(err, n.stack().PutBack(context.WithoutCancel(ctx), before, removed))
}

// missing returns the wanted modules that are not loaded.
func (n *Node) missing() (modules []status.Module, err error) {
	for _, m := range n.files() {
		loaded, err := n.isLoaded(m.Name)
		if err != nil {
			return nil, err
		}
		if !loaded {
			modules = append(modules, m)
		}
	}
	return modules, nil
}

// below returns the modules of the kernel that these modules use.
func (n *Node) below(modules []status.Module) []string {
	names := slices.Clone(inTree)
	for _, m := range modules {
		f, _ := n.found.File(m.Name)
		for _, dep := range f.Info.Depends {
			if !strings.HasPrefix(dep, "nvidia") {
				names = append(names, dep)
			}
		}
	}
	return names
}

// check compares the loaded modules with those that were to be loaded.
func (n *Node) check() error {
	live, err := compare(n.Kernel, n.wanted())
	if err != nil {
		return fmt.Errorf("verify the modules after loading them: %w", err)
	}
	if !live.Whole() {
		return fmt.Errorf(
			"verify the modules after loading them: not as they were loaded: %s",
			strings.Join(live.Reasons, "; "),
		)
	}
	return nil
}

// keep puts modules that were compiled or signed here into the cache after they have been loaded,
// and records those files instead.
func (n *Node) keep(ctx context.Context) error {
	made := n.files()
	set, err := n.Supplier.Keep(ctx, n.found, n.needed())
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.warn(
			"the modules were made here and loaded but could not be kept, the next start makes them again: %v",
			err,
		)
		return nil
	}
	n.found = set
	n.fresh = false
	modules := slices.Clone(n.driver.Modules)
	for i, m := range modules {
		if f, ok := set.File(m.Name); ok &&
			slices.ContainsFunc(made, func(o status.Module) bool { return o.File == m.File }) {
			modules[i].File, modules[i].SHA256 = f.Path, f.SHA256
		}
	}
	n.driver.Modules = modules
	n.showDriver()
	return nil
}

func (n *Node) showDriver() {
	d := n.driver
	n.status.Change(func(st *status.Snapshot) { st.Up = &d })
}
