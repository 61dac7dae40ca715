package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/preflight"
)

// survey finds out what this node is to have, and whether it has it already: GPUs, flavour, parameters, modules that need no
// compiling, and whether the driver that is loaded can stay. It changes nothing.
func (n *Node) survey(ctx context.Context) error {
	var err error
	if n.gpus, err = n.hardware.GPUs(); err != nil {
		return err
	}
	if n.options, err = n.hardware.Options(); err != nil {
		return fmt.Errorf("%w: module parameters: %w", ErrConfig, err)
	}
	flavour, reason, err := n.hardware.Flavour(n.gpus, n.cfg.ModuleType)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	mellanox, err := n.rdma()
	if err != nil {
		return err
	}
	n.want = Want{Driver: n.info.Driver, Flavour: flavour, Release: n.release, Modules: n.cfg.modules(mellanox)}
	for _, m := range []string{"nvidia-drm", "nvidia-peermem"} {
		if !slices.Contains(n.want.Modules, m) {
			n.want.Optional = append(n.want.Optional, m)
		}
	}
	n.say("driver %s, %s modules (%s), kernel %s, %d GPUs", n.want.Driver, flavour, reason, n.release, len(n.gpus))
	n.found, n.source, err = n.supplier.Find(ctx, n.want)
	var corrupt *kbuild.CorruptError
	switch {
	case errors.As(err, &corrupt):
		n.warn("%v", corrupt)
	case err != nil && !errors.Is(err, kbuild.ErrMiss):
		return err
	}
	if err := n.checkParams(); err != nil {
		return err
	}
	return n.decide()
}

// rdma says whether nvidia-peermem can be loaded now: it stands on Mellanox's modules.
func (n *Node) rdma() (bool, error) {
	if !n.cfg.RDMA {
		return false, nil
	}
	there, err := n.hardware.Mellanox()
	if err != nil || !there {
		return false, err
	}
	_, err = n.kernel.Module("mlx5_core")
	if errors.Is(err, fs.ErrNotExist) {
		n.warn("mlx5_core is not loaded yet, so nvidia-peermem is not loaded: reload_nvidia_peermem does that when it is")
		return false, nil
	}
	return err == nil, err
}

// decide whether to adopt.
func (n *Node) decide() error {
	loaded, err := n.isLoaded()
	if err != nil || !loaded {
		return err
	}
	ok, why, err := n.adoptable()
	if err != nil {
		return err
	}
	n.adopted = ok
	if ok {
		n.say("driver %s is loaded as wanted: adopting it", n.want.Driver)
	} else {
		n.say("a driver is loaded that has to be replaced: %s", why)
	}
	return nil
}

// checkParams refuses parameters that the modules do not have, before anything loads: the kernel would only mutter about them.
func (n *Node) checkParams() error {
	if n.found == nil {
		return nil // checked again when there are files
	}
	for _, name := range n.want.Modules {
		f, ok := n.found.File(name)
		if !ok {
			return fmt.Errorf("the set of modules (%s) has no %s", n.source, name)
		}
		if err := f.Info.CheckParams(n.options.For(underscores(name))); err != nil {
			return fmt.Errorf("%w: %w; correct %s/%s.conf or /etc/modprobe.d", ErrConfig, err, n.cfg.Drivers, name)
		}
	}
	return nil
}

// preflight says everything that stands in the way, before anything is touched.
func (n *Node) preflight(ctx context.Context) error {
	checks := n.hardware.Preflight(ctx, n.question())
	for _, c := range checks {
		if c.Status == preflight.Warning {
			n.warn("preflight: %s: %s. %s", c.Name, c.Finding, c.Fix)
		}
	}
	return preflight.Blocking(checks)
}

func (n *Node) question() Question {
	q := Question{Want: n.want, GPUs: n.gpus, Found: n.found != nil || n.adopted, RDMA: slices.Contains(n.want.Modules, "nvidia-peermem")}
	if n.prev != nil {
		q.Previous = n.prev.Version
	}
	if n.found != nil {
		if f, ok := n.found.File("nvidia"); ok {
			q.Signed = &f.Info.Signed
		}
	}
	return q
}

// getModules compiles what was not found.
func (n *Node) getModules(ctx context.Context) error {
	if n.found != nil || n.adopted {
		return nil
	}
	set, err := n.supplier.Compile(ctx, n.want)
	if err != nil {
		return err
	}
	n.found, n.source = set, compiled
	return n.checkParams()
}

// stage copies the driver root to the host's storage where there is one. What is served now is not touched.
func (n *Node) stage(ctx context.Context) (err error) {
	n.staged, err = n.roots.Stage(ctx)
	return err
}
