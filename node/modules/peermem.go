package modules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// mofedReady is the file that the container of Mellanox's driver creates when its modules are loaded.
const mofedReady = "/run/mellanox/drivers/.driver-ready"

// Peermem loads nvidia-peermem of the set that the driver was loaded from.
type Peermem struct {
	Kernel    Kernel
	Run       string // folder shared with the host: /run/nvidia
	HostMOFED bool   // Mellanox's driver is the host's own
	// Find returns the module's file and its parameters, when the driver serves.
	Find func(ctx context.Context) (file string, params []string, err error)
	Log  *slog.Logger
}

// Load waits until this node's driver serves and Mellanox's modules are loaded, then loads nvidia-peermem.
// timeout limits the waiting; 0: only ctx does.
func (p Peermem) Load(ctx context.Context, timeout time.Duration) error {
	wait, cancel := context.WithCancel(ctx)
	if timeout > 0 {
		wait, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	if err := status.WaitReady(wait, p.Run, kmod.System{}, p.Log); err != nil {
		return err
	}
	if err := p.waitMellanox(wait); err != nil {
		return err
	}
	if _, err := p.Kernel.Module("nvidia_peermem"); err == nil {
		p.Log.Info("already loaded", "module", "nvidia-peermem")
		return nil
	}
	file, params, err := p.Find(ctx)
	if err != nil {
		return err
	}
	if err := p.Kernel.Insert(ctx, file, params); err != nil && !errors.Is(err, kmod.ErrLoaded) {
		return fmt.Errorf("failed to load nvidia-peermem module: %w", err)
	}
	p.Log.Info("loaded", "module", "nvidia-peermem")
	return nil
}

func (p Peermem) waitMellanox(ctx context.Context) error {
	there := func() bool {
		_, err := os.Stat(mofedReady)
		if p.HostMOFED {
			_, err = p.Kernel.Module("mlx5_core")
		}
		return err == nil
	}
	const missing = "Mellanox's driver is not there (" + mofedReady + ", or mlx5_core of the host with USE_HOST_MOFED=true)"
	for said := false; !there(); said = true {
		if !said {
			p.Log.Info("waiting", "reason", missing)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", status.ErrNotReady, missing)
		case <-time.After(time.Second):
		}
	}
	return nil
}
