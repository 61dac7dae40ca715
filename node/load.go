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

// load loads the modules into the kernel; of an adopted driver only those that it lacks.
func (n *Node) load(ctx context.Context, up Served) (Served, error) {
	l := loading{Node: n, up: &up}
	if !up.Loaded.Whole() {
		err := l.insert(ctx)
		remains := errors.Is(err, modules.ErrRemains)
		if err != nil && !remains {
			return up, err
		}
		if !up.Loaded.Adopted { // what remains the stop unloads, with all that use it
			up.Steps = append(up.Steps, modulesStep)
		}
		if remains {
			return up, err
		}
	}
	n.Status.Record(up.Driver)
	if !up.Fresh {
		return up, nil
	}
	err := l.keep(ctx)
	return up, err
}

// loading is the change from what is loaded to what is wanted.
type loading struct {
	*Node
	up *Served
}

// insert loads the wanted modules that are not loaded, after it has unloaded those that differ. If
// one is refused, the loaded ones are unloaded and the unloaded ones loaded again.
func (l loading) insert(ctx context.Context) error {
	up := l.up
	before := up.Driver
	stack := l.stack()
	differing, err := stack.Loaded(up.Loaded.Differing...)
	if err != nil {
		return err
	}
	removed, err := stack.Delete(ctx, differing, before)
	if err != nil {
		return err
	}
	loaded, err := l.insertMissing(ctx)
	undone := err != nil && !errors.Is(err, modules.ErrRemains)
	if !undone {
		return err
	}
	stack.Sweep(ctx, loaded)
	up.Driver = before
	l.Status.Record(before)
	return errors.Join(err, stack.PutBack(context.WithoutCancel(ctx), before, removed))
}

// insertMissing loads the wanted modules that are not loaded, and returns the kernel's own modules
// that it has loaded for them. The record has a module before it is loaded, so that it is true
// whenever the instance is killed: what a record names need not be loaded.
func (l loading) insertMissing(ctx context.Context) (inTree []string, err error) {
	up := l.up
	missing, err := up.missing(l.Kernel)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		before := up.Driver.InTree
		record := func(name string) {
			up.Driver.InTree = append(slices.Clone(up.Driver.InTree), name)
			l.Status.Record(up.Driver)
		}
		inTree, err = l.Kernel.InsertInTree(ctx, record, up.below(missing)...)
		if err != nil {
			return inTree, err
		}
		up.Driver.InTree = slices.Concat(before, inTree)
		replaced := func(m status.Module) bool { return modules.Named(missing, m.Name) }
		kept := slices.DeleteFunc(slices.Clone(up.Driver.Modules), replaced)
		up.Driver.Modules = append(kept, missing...)
		l.Status.Record(up.Driver)
	}
	err = l.stack().Insert(ctx, missing)
	if err != nil {
		return inTree, err
	}
	err = check(l.Kernel, up.ModuleSet)
	if err != nil {
		err = errors.Join(err, l.stack().Remove(context.WithoutCancel(ctx), missing))
	}
	return inTree, err
}

// check compares the loaded modules with those that were to be loaded.
func check(k Kernel, wanted ModuleSet) error {
	live, err := wanted.compare(k, nil)
	if err != nil {
		return fmt.Errorf("verify the modules after loading them: %w", err)
	}
	if !live.Whole() {
		return fmt.Errorf("verify the modules after loading them: not as they were loaded: %s",
			strings.Join(live.Reasons, "; "))
	}
	return nil
}

// keep puts modules that were compiled or signed here into the cache after they have been loaded,
// and records those files instead.
func (l loading) keep(ctx context.Context) error {
	up := l.up
	made := up.files()
	set, err := l.Supplier.Keep(ctx, up.Set, l.needed(up.Previous, up.Driver, up.Replaced))
	if err != nil {
		if ctx.Err() == nil {
			l.warn("the modules were made here and loaded but could not be kept, "+
				"the next start makes them again: %v", err)
		}
		return ctx.Err()
	}
	up.Set = set
	up.Fresh = false
	up.Driver.Modules = slices.Clone(up.Driver.Modules)
	for i, m := range up.Driver.Modules {
		kept, found := set.File(m.Name)
		same := func(o status.Module) bool { return o.File == m.File }
		if found && slices.ContainsFunc(made, same) {
			up.Driver.Modules[i].File = kept.Path
			up.Driver.Modules[i].SHA256 = kept.SHA256
		}
	}
	l.Status.Record(up.Driver)
	return nil
}
