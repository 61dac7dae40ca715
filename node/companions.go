package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// loadCompanions loads the modules beside the driver's own that were asked for. They are never a
// reason to fail: what is missing is a warning and in the status. They are unloaded with the
// driver's modules.
func (n *Node) loadCompanions(ctx context.Context, up Served) (Served, error) {
	record := func(modules []status.Module) {
		up.Driver.Modules = modules
		n.Status.Record(up.Driver)
	}
	n.showCompanions(n.group(up.ModuleSet).Load(ctx, up.Driver.Modules, record))
	return up, ctx.Err()
}

func (n *Node) showCompanions(states []status.Companion) {
	if slices.Equal(states, n.Status.Get().Companions) {
		return
	}
	for _, c := range states {
		if c.Reason != "" {
			n.warn("%s", c.Text())
		} else {
			n.Log.Info("companion", "module", c.Name, "version", c.Version)
		}
	}
	n.Status.Companions(states)
}

// LoadPeermem loads nvidia-peermem of the set that the driver was loaded from, see modules.Peermem.
func (n *Node) LoadPeermem(ctx context.Context, timeout time.Duration, hostMOFED bool) error {
	p := modules.Peermem{
		Kernel:    n.Kernel,
		Run:       n.cfg.Run,
		HostMOFED: hostMOFED,
		Find: func(ctx context.Context) (status.Module, error) {
			return findPeermem(ctx, n.cfg, n.Machine)
		},
		Log: n.Log,
	}
	return p.Load(ctx, timeout)
}

func findPeermem(ctx context.Context, cfg config.Config, machine Machine) (m status.Module, err error) {
	st, err := status.Read(cfg.Run)
	if err != nil {
		return m, err
	}
	if st.Up == nil || st.Up.Version != machine.Info.Driver {
		return m, fmt.Errorf(
			"%w: this image has driver %s, the node has %s",
			config.ErrConfig,
			machine.Info.Driver,
			describe(st.Up),
		)
	}
	options, err := machine.Hardware.Options()
	if err != nil {
		return m, fmt.Errorf("%w: module parameters: %w", config.ErrConfig, err)
	}
	set, _, err := machine.Supplier.Find(
		ctx,
		Want{Driver: st.Up.Version, Flavour: st.Up.Flavour, Release: machine.Release},
	)
	if err != nil {
		return m, fmt.Errorf(
			"find nvidia-peermem, which was compiled with the driver's other modules (is %s mounted here, too?): %w",
			cfg.StateDir,
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
