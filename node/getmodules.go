package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/status"
)

// getModules makes the modules unless the loaded ones stay. Those of a driver that stays it makes if
// companions are wanted with them.
func (n *Node) getModules(ctx context.Context, facts Facts) (Facts, error) {
	if n.cfg.ByHost() {
		text, fix := hostUnfit(n.Kernel, n.Info.Driver)
		if text != "" { // the node's administrator let it pass preflight
			return facts, fmt.Errorf("%w: %s. %s", config.ErrConfig, text, fix)
		}
		return facts, nil
	}
	whole := facts.Loaded.Whole()
	compared := facts.Set != nil
	if whole && (compared || !n.group(facts.ModuleSet).Compiles()) {
		return facts, nil
	}
	made, err := n.makeModules(ctx, facts.ModuleSet)
	if whole && err != nil && ctx.Err() == nil {
		n.warn("the loaded driver stays, its companions are missing: %v", err)
		return facts, nil
	}
	if err != nil {
		return facts, err
	}
	facts.ModuleSet = made
	if whole {
		return facts, nil
	}
	err = facts.checkParams(n.cfg.Drivers)
	if err != nil || compared || !facts.Loaded.Adopted {
		return facts, err
	}
	// now there are files that the loaded modules can be compared with
	facts.Loaded, err = n.compareLoaded(facts)
	return facts, err
}

// makeModules compiles modules that were not found, and signs them if a key is mounted for that.
func (n *Node) makeModules(ctx context.Context, m ModuleSet) (ModuleSet, error) {
	if m.Set == nil {
		set, err := n.compile(ctx, m.Want)
		if err != nil {
			return m, err
		}
		m.Set = set
		m.Source = status.Compiled
		m.Fresh = true
	}
	if n.Supplier.Signer(m.Set, m.Source) == nil {
		return m, nil
	}
	set, err := n.Supplier.Sign(ctx, m.Set)
	if err != nil {
		return m, err
	}
	m.Set = set
	m.Fresh = true
	return m, nil
}

func (n *Node) compile(ctx context.Context, w Want) (*kbuild.Set, error) {
	// The reason is that another container compiles; with "" the start goes on.
	waits := func(reason string) {
		if reason == "" {
			n.Status.Set(status.Starting, "")
			return
		}
		n.Status.Wait(status.ForToolkit, reason, nil)
	}
	set, err := n.Supplier.Compile(ctx, w, CompileEvents{Waits: waits, Warn: n.warn})
	n.Status.Count(func(c *status.Counters) {
		if err == nil {
			c.Compiled++
		}
		if errors.As(err, new(*kbuild.CompileError)) {
			c.CompilesFailed++
		}
	})
	return set, err
}

// stage copies the driver root to the host's storage if there is any, and keeps the modules there.
// It does not touch the root that is served now.
func (n *Node) stage(ctx context.Context, facts Facts) (staged Staged, err error) {
	staged.Facts = facts
	dir, err := n.Roots.Stage(ctx, n.needed(facts.Previous))
	if err != nil {
		return staged, err
	}
	staged.Record = status.Driver{
		Version: facts.Want.Driver,
		Flavour: facts.Want.Flavour,
		Source:  facts.Source,
		Signer:  facts.Set.SignedBy(),
		RootID:  n.Info.ID,
		CUDA:    n.Info.CUDA,
		RootDir: dir,
	}
	staged.Set, err = n.keepOnHost(ctx, staged)
	return staged, err
}

// keepOnHost returns the modules as files of the host: those of the image are in its staged root,
// those of a mounted image go into the cache. Modules that were made here follow when they have
// been loaded.
func (n *Node) keepOnHost(ctx context.Context, staged Staged) (*kbuild.Set, error) {
	if staged.Set == nil || staged.Fresh || staged.Record.RootDir == "" {
		return staged.Set, nil
	}
	switch staged.Source {
	case status.FromImage:
		set := *staged.Set
		set.Modules = slices.Clone(set.Modules)
		for i, f := range set.Modules {
			set.Modules[i].Path = inRoot(staged.Record.RootDir, f.Path)
		}
		return &set, nil
	case status.FromMounted:
		set, err := n.Supplier.Keep(ctx, staged.Set, n.needed(staged.Previous))
		if err != nil {
			n.warn("the modules cannot be kept on the host, "+
				"so driver %s cannot be put back if a later one fails: %v", staged.Want.Driver, err)
			return staged.Set, ctx.Err()
		}
		return set, nil
	}
	return staged.Set, nil
}
