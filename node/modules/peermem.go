package modules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/status"
)

// mofedReady is the file that the container of Mellanox's driver creates when its modules are
// loaded.
const mofedReady = "/run/mellanox/drivers/.driver-ready"

// Peermem loads nvidia-peermem of the set that the driver was loaded from.
type Peermem struct {
	Kernel Kernel
	// folder shared with the host: /run/nvidia
	Run string
	// Mellanox's driver is the host's own
	HostMOFED bool
	// finds the module when the driver serves
	Find func(ctx context.Context) (status.Module, error)
	Log  *slog.Logger
}

// Load waits until this node's driver serves and Mellanox's modules are loaded, then loads
// nvidia-peermem. timeout limits the waiting; 0: only ctx does.
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
	module, err := p.Find(ctx)
	if err != nil {
		return err
	}
	err = p.Kernel.Insert(ctx, module.File, module.SHA256, module.Params)
	if err != nil && !errors.Is(err, kmod.ErrLoaded) {
		return fmt.Errorf("failed to load nvidia-peermem module: %w", err)
	}
	p.Log.Info("loaded", "module", "nvidia-peermem")
	return nil
}

func (p Peermem) waitMellanox(ctx context.Context) error {
	const missing = "Mellanox's driver is not there (" + mofedReady + ", or mlx5_core of the host with USE_HOST_MOFED=true)"
	say := sync.OnceFunc(func() { p.Log.Info("waiting", "reason", missing) })
	return daemons.Until(ctx, time.Second, func() error {
		_, err := os.Stat(mofedReady)
		if p.HostMOFED {
			_, err = p.Kernel.Module("mlx5_core")
		}
		if err == nil {
			return nil
		}
		say()
		return fmt.Errorf("%w: %s", status.ErrNotReady, missing)
	})
}

// If Mellanox's own driver is used, nvidia-peermem is compiled against it. NVIDIA's sources search
// for it at the first path, Mellanox's container has it at the second one.
const (
	ofedSource    = "usr/src/ofa_kernel"
	ofedContainer = "run/mellanox/drivers/usr/src/ofa_kernel"
)

// OFED finds the sources of Mellanox's driver below root and creates the link through which
// NVIDIA's sources find them. It returns a name of the symbols that they offer to other modules,
// because modules that were compiled against other symbols differ; "" if there are no such sources.
func OFED(root, kernelArch, release string) (string, error) {
	source := filepath.Join(root, ofedSource)
	container := filepath.Join(root, ofedContainer)
	_, own := os.Stat(source)
	_, beside := os.Stat(container)
	if errors.Is(own, fs.ErrNotExist) && errors.Is(beside, fs.ErrNotExist) {
		return "", nil
	}
	if errors.Is(own, fs.ErrNotExist) {
		err := os.Symlink("/"+ofedContainer, source)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("link the sources of Mellanox's driver: %w", err)
		}
	}
	for _, dir := range []string{source, container} {
		// as nvidia-peermem.Kbuild
		for _, folder := range []string{filepath.Join(kernelArch, release), release, "default"} {
			sum, _, err := kbuild.Digest(filepath.Join(dir, folder, "Module.symvers"))
			if err == nil {
				return "ofa_kernel-" + sum[:12], nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
	}
	return "", nil
}
