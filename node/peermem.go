package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/status"
)

// LoadPeermem waits until this node's driver serves and Mellanox's modules are loaded, then loads
// nvidia-peermem of the set that the driver was loaded from. timeout limits the waiting; 0: only ctx
// does. hostMOFED says that Mellanox's driver is the host's own.
func (n *Node) LoadPeermem(ctx context.Context, timeout time.Duration, hostMOFED bool) error {
	wait, cancel := context.WithCancel(ctx)
	if timeout > 0 {
		wait, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	err := status.WaitReady(wait, n.cfg.Run, kmod.System{}, n.Log)
	if err != nil {
		return err
	}
	err = n.awaitMellanox(wait, hostMOFED)
	if err != nil {
		return err
	}
	_, err = n.Kernel.Module("nvidia_peermem")
	if err == nil {
		n.Log.Info("already loaded", "module", "nvidia-peermem")
		return nil
	}
	module, err := n.findPeermem(ctx)
	if err != nil {
		return err
	}
	err = n.Kernel.Insert(ctx, module.File, module.SHA256, module.Params)
	if err != nil && !errors.Is(err, kmod.ErrLoaded) {
		return fmt.Errorf("failed to load nvidia-peermem module: %w", err)
	}
	n.Log.Info("loaded", "module", "nvidia-peermem")
	return nil
}

// mofedReady is the file that the container of Mellanox's driver creates when its modules are
// loaded.
const mofedReady = "/run/mellanox/drivers/.driver-ready"

func (n *Node) awaitMellanox(ctx context.Context, hostMOFED bool) error {
	const missing = "Mellanox's driver is not there (" + mofedReady +
		", or mlx5_core of the host with USE_HOST_MOFED=true)"
	say := sync.OnceFunc(func() { n.Log.Info("waiting", "reason", missing) })
	return daemons.Until(ctx, time.Second, func() error {
		_, err := os.Stat(mofedReady)
		if hostMOFED {
			_, err = n.Kernel.Module("mlx5_core")
		}
		if err == nil {
			return nil
		}
		say()
		return fmt.Errorf("%w: %s", status.ErrNotReady, missing)
	})
}

func (n *Node) findPeermem(ctx context.Context) (m status.Module, err error) {
	st, err := status.Read(n.cfg.Run)
	if err != nil {
		return m, err
	}
	if st.Up == nil || st.Up.Version != n.Info.Driver {
		return m, fmt.Errorf("%w: this image has driver %s, the node has %s",
			config.ErrConfig, n.Info.Driver, describe(st.Up))
	}
	options, err := n.Hardware.Options()
	if err != nil {
		return m, fmt.Errorf("%w: module parameters: %w", config.ErrConfig, err)
	}
	w := Want{Driver: st.Up.Version, Flavour: st.Up.Flavour, Release: n.Release}
	set, _, err := n.Supplier.Find(ctx, w)
	if err != nil {
		return m, fmt.Errorf("find nvidia-peermem, which was compiled with the driver's other "+
			"modules (is %s mounted here, too?): %w", n.cfg.StateDir, err)
	}
	f, found := set.File("nvidia-peermem")
	if !found {
		return m, fmt.Errorf("%s has no nvidia-peermem: the driver's sources or the kernel lack it",
			set.Dir)
	}
	return status.Module{File: f.Path, SHA256: f.SHA256, Params: options.For("nvidia_peermem")}, nil
}
