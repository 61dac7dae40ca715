package host

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/fabric"
	"github.com/driver-container/driver-container/node/vgpu"
)

// daemonStarter starts the real daemons: persistence if the image has it, fabric management if the
// machine needs it.
type daemonStarter struct {
	cfg    config.Config
	log    *slog.Logger
	kernel *liveKernel
}

// Start starts the daemons that the image has and the machine needs.
func (a *daemonStarter) Start(ctx context.Context) (node.Daemons, error) {
	fabric, err := a.fabric()
	if err != nil {
		return nil, err
	}
	var specs []daemons.Spec
	if a.cfg.Persistence {
		specs = append(specs, daemons.Persistenced("/")...)
	}
	specs = append(specs, fabric...)
	if a.cfg.VGPU {
		specs = append(specs, vgpu.Daemons(vgpu.Facts{Drivers: a.cfg.Drivers})...)
	}
	s, err := daemons.Start(ctx, a.log, specs...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fabric returns the daemons of the NVLink fabric and of memory across machines.
func (a *daemonStarter) fabric() (specs []daemons.Spec, err error) {
	facts := fabricFacts(a.cfg)
	facts.Log = a.log
	facts.LoadModules = a.loadModules
	if a.cfg.Fabric == fabric.Auto {
		gpus, err := devices.GPUs("/sys")
		if err != nil {
			return nil, err
		}
		facts.Machine, err = fabric.Detect("/sys", gpus)
		if err != nil {
			return nil, err
		}
		specs, err = fabric.Daemons(facts)
		if err != nil {
			return nil, err
		}
	}
	if a.cfg.IMEX == fabric.IMEXService {
		imex, err := fabric.IMEX(facts)
		if err != nil {
			return nil, err
		}
		specs = append(specs, imex...)
	}
	return specs, nil
}

func fabricFacts(cfg config.Config) fabric.Facts {
	return fabric.Facts{Drivers: cfg.Drivers, Settings: cfg.FabricSettings, Mode: cfg.FabricMode}
}

// loadModules loads modules of the kernel. They are not recorded and stay loaded: they belong to
// network cards, which others use too.
func (a *daemonStarter) loadModules(ctx context.Context, names ...string) error {
	inserted, missing, err := a.kernel.InsertDeps(
		ctx,
		a.kernel.release,
		hostRoots,
		func(string) {},
		names...)
	if len(inserted) > 0 {
		a.log.Info(
			"modules of the network card loaded; they stay when the driver goes",
			"modules",
			strings.Join(inserted, ", "),
		)
	}
	if err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("the kernel's modules have no %s", strings.Join(missing, ", "))
}
