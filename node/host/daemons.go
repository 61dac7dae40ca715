package host

import (
	"context"
	"log/slog"

	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/daemons"
)

// daemonStarter starts the real daemons: persistence if the image has it, fabric management if the machine
// needs it.
type daemonStarter struct {
	cfg node.Config
	log *slog.Logger
}

// Start starts the daemons that the image has and the machine needs.
func (a *daemonStarter) Start(ctx context.Context) (node.Daemons, error) {
	facts := daemons.Facts{Drivers: a.cfg.Drivers, Fabric: a.cfg.Fabric}
	var specs []daemons.Spec
	if a.cfg.Persistence {
		specs = append(specs, daemons.Persistenced(facts)...)
	}
	fabric, err := daemons.FabricManager(facts)
	if err != nil {
		return nil, err
	}
	specs = append(specs, fabric...)
	if a.cfg.VGPU {
		specs = append(specs, daemons.VGPU(facts)...)
	}
	s, err := daemons.Start(ctx, a.log, specs...)
	if err != nil {
		return nil, err
	}
	return s, nil
}
