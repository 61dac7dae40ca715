package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// mofedReady is the file that the container of Mellanox's driver creates when its modules are loaded.
const mofedReady = "/run/mellanox/drivers/.driver-ready"

// LoadPeermem waits until this node's driver serves and Mellanox's modules are loaded, then loads
// nvidia-peermem of the set that the driver was loaded from. hostMOFED says that Mellanox's driver is the
// host's own. timeout limits the waiting; 0: only ctx does.
func (n *Node) LoadPeermem(ctx context.Context, timeout time.Duration, hostMOFED bool) error {
	wait, cancel := context.WithCancel(ctx)
	if timeout > 0 {
		wait, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	if err := status.WaitReady(wait, n.cfg.Run, kmod.System{}, n.log); err != nil {
		return err
	}
	if err := n.waitMellanox(wait, hostMOFED); err != nil {
		return err
	}
	if _, err := n.kernel.Module("nvidia_peermem"); err == nil {
		n.log.Info("already loaded", "module", "nvidia-peermem")
		return nil
	}
	st, err := status.Read(n.cfg.Run)
	if err != nil {
		return err
	}
	if st.Up == nil || st.Up.Version != n.info.Driver {
		return fmt.Errorf("%w: this image has driver %s, the node has %s", ErrConfig, n.info.Driver, describe(st.Up))
	}
	options, err := n.hardware.Options()
	if err != nil {
		return fmt.Errorf("%w: module parameters: %w", ErrConfig, err)
	}
	set, _, err := n.supplier.Find(ctx, Want{Driver: st.Up.Version, Flavour: st.Up.Flavour, Release: n.release})
	if err != nil {
		return fmt.Errorf("find nvidia-peermem, which was compiled with the driver's other modules (is %s mounted here, too?): %w", n.cfg.StateDir, err)
	}
	f, ok := set.File("nvidia-peermem")
	if !ok {
		return fmt.Errorf("%s has no nvidia-peermem: the driver's sources or the kernel lack it", set.Dir)
	}
	if err := n.kernel.Insert(ctx, f.Path, options.For("nvidia_peermem")); err != nil && !errors.Is(err, kmod.ErrLoaded) {
		return fmt.Errorf("failed to load nvidia-peermem module: %w", err)
	}
	n.log.Info("loaded", "module", "nvidia-peermem")
	return nil
}

func (n *Node) waitMellanox(ctx context.Context, host bool) error {
	there := func() bool {
		_, err := os.Stat(mofedReady)
		if host {
			_, err = n.kernel.Module("mlx5_core")
		}
		return err == nil
	}
	const missing = "Mellanox's driver is not there (" + mofedReady + ", or mlx5_core of the host with USE_HOST_MOFED=true)"
	for said := false; !there(); said = true {
		if !said {
			n.log.Info("waiting", "reason", missing)
		}
		if !sleep(ctx, tick) {
			return fmt.Errorf("%w: %s", status.ErrNotReady, missing)
		}
	}
	return nil
}
