package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// group returns the companions of this instance's driver.
func (n *Node) group() modules.Group {
	return modules.Group{
		Kernel: n.Kernel, Wanted: n.want.Companions, Info: n.info, Flavour: n.want.Flavour, Set: n.found, Options: n.options, Toolkit: n.cfg.HasToolkit(),
	}
}

// makeCompanions makes the modules of an adopted driver again if they are not at hand and
// companions are wanted with them. The driver itself stays as it is.
func (n *Node) makeCompanions(ctx context.Context) {
	if n.found != nil || !n.group().Compiles() {
		return
	}
	if err := n.makeModules(ctx); err != nil && ctx.Err() == nil {
		n.found = nil
		n.warn("the loaded driver stays, its companions are missing: %v", err)
	}
}

// loadCompanions loads the modules beside the driver's own that were asked for. They are never a
// reason to fail: what is missing is a warning and in the status. They are unloaded with the
// driver's modules.
func (n *Node) loadCompanions(ctx context.Context) error {
	states := n.group().Load(ctx, n.driver.Modules, func(modules []status.Module) {
		n.driver.Modules = modules
		n.showDriver()
	})
	n.showCompanions(states)
	return ctx.Err()
}

func (n *Node) showCompanions(states []status.Companion) {
	if slices.Equal(states, n.status.Get().Companions) {
		return
	}
	for _, c := range states {
		if c.Reason != "" {
			n.warn("%s", c.Text())
		} else {
			n.log.Info("companion", "module", c.Name, "version", c.Version)
		}
	}
	n.status.Change(func(st *status.Snapshot) { st.Companions = states })
}

// followCompanions reports companions that other programs loaded or unloaded, and loads those that
// waited for users of an older version.
func (n *Node) followCompanions(ctx context.Context) {
	states, again := n.group().Look(n.driver.Modules, n.status.Get().Companions)
	if !again {
		n.showCompanions(states)
		return
	}
	if err := n.loadCompanions(ctx); err != nil {
		return
	}
	if err := n.makeNodes(ctx); err != nil {
		n.warn("device files of a companion: %v", err)
	}
}

// nameLoaders adds to the error of a driver in use which companions other programs loaded, because
// their containers have to end first. Without an error it logs them.
func (n *Node) nameLoaders(stack []kmod.Module, d status.Driver, err error) error {
	notes := strings.Join(modules.Foreign(stack, d.Modules), "; ")
	if busy, ok := errors.AsType[*modules.InUseError](err); ok {
		busy.Note = notes
	} else if err == nil && notes != "" {
		n.log.Warn("unloaded with the driver", "reason", notes)
	}
	return err
}

// LoadPeermem loads nvidia-peermem of the set that the driver was loaded from, see modules.Peermem.
func (n *Node) LoadPeermem(ctx context.Context, timeout time.Duration, hostMOFED bool) error {
	return modules.Peermem{
		Kernel:    n.Kernel,
		Run:       n.cfg.Run,
		HostMOFED: hostMOFED,
		Find:      n.findPeermem,
		Log:       n.log,
	}.Load(
		ctx,
		timeout,
	)
}

func (n *Node) findPeermem(ctx context.Context) (m status.Module, err error) {
	st, err := status.Read(n.cfg.Run)
	if err != nil {
		return m, err
	}
	if st.Up == nil || st.Up.Version != n.Info.Driver {
		return m, fmt.Errorf(
			"%w: this image has driver %s, the node has %s",
			config.ErrConfig,
			n.Info.Driver,
			describe(st.Up),
		)
	}
	options, err := n.Hardware.Options()
	if err != nil {
		return m, fmt.Errorf("%w: module parameters: %w", config.ErrConfig, err)
	}
	set, _, err := n.Supplier.Find(
		ctx,
		Want{Driver: st.Up.Version, Flavour: st.Up.Flavour, Release: n.Release},
	)
	if err != nil {
		return m, fmt.Errorf(
			"find nvidia-peermem, which was compiled with the driver's other modules (is %s mounted here, too?): %w",
			n.cfg.StateDir,
			err,
		)
	}
	f, ok := set.File("nvidia-peermem")
	if !ok {
		return m, fmt.Errorf(
			"%s has no nvidia-peermem: the driver's sources or the kernel lack it",
			set.Dir,
		)
	}
	return status.Module{File: f.Path, SHA256: f.SHA256, Params: options.For("nvidia_peermem")}, nil
}
