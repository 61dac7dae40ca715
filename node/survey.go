package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/preflight"
	"github.com/driver-container/driver-container/node/status"
)

// survey finds out what this node needs and what it has already: GPUs, flavour, parameters, modules
// that need no compiling, and whether the loaded driver can stay. It changes nothing.
func (n *Node) survey(ctx context.Context) error {
	var err error
	n.info = n.Info
	n.gpus, err = n.Hardware.GPUs()
	if err != nil {
		return err
	}
	n.options, err = n.Hardware.Options()
	if err != nil {
		return fmt.Errorf("%w: module parameters: %w", config.ErrConfig, err)
	}
	n.Hardware.KernelLog() // from here on it counts
	if n.byHost() {
		return n.surveyHost()
	}
	flavour, reason, err := n.Hardware.Flavour(n.gpus, n.Release, n.cfg.ModuleType)
	if err != nil {
		return fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	mellanox, err := n.rdma()
	if err != nil {
		return err
	}
	n.want = n.modules(flavour, n.Release, mellanox)
	n.log.Info("driver chosen", "driver", n.want.Driver, "flavour", flavour, "kernel", n.Release, "gpus", len(n.gpus), "reason", reason)
	if err := n.find(ctx); err != nil {
		return err
	}
	if err := n.checkParams(); err != nil {
		return err
	}
	return n.decide()
}

// modules returns the modules of this image's driver for a kernel. The files to load are in order,
// under the names of the driver's own build.
func (n *Node) modules(flavour, release string, mellanox bool) Want {
	w := Want{Driver: n.Info.Driver, Flavour: flavour, Release: release, Modules: append(driverinfo.RequiredModules(), "nvidia-modeset"),
		Companions: modules.Wanted(n.cfg.GDS, n.cfg.GDRCopy)}
	add := func(module string, load bool) {
		if load {
			w.Modules = append(w.Modules, module)
		} else {
			w.Optional = append(w.Optional, module)
		}
	}
	add("nvidia-drm", n.cfg.DRM)
	add("nvidia-peermem", n.cfg.RDMA && mellanox)
	return w
}

// find searches for existing modules.
func (n *Node) find(ctx context.Context) error {
	n.found = nil
	n.source = ""
	n.damaged = ""
	set, source, err := n.Supplier.Find(ctx, n.want)
	n.status.Change(func(st *status.Snapshot) {
		switch {
		case st.State == status.Waiting: // a search of the same start
		case err == nil && source == status.FromCache:
			st.Counters.CacheHits++
		case errors.Is(err, kbuild.ErrMiss):
			st.Counters.CacheMisses++
		}
	})
	corrupt, damaged := errors.AsType[*kbuild.CorruptError](err)
	switch {
	case err == nil:
		n.found = set
		n.source = source
	case damaged:
		n.damaged = corrupt.Error()
		if source == status.FromImage {
			n.damaged = "the image is damaged, pull it again: " + n.damaged
		}
		n.warn("%s", n.damaged)
	case !errors.Is(err, kbuild.ErrMiss):
		return err
	}
	return n.narrow()
}

// narrow drops modules that the set lacks because its builder left them out (driver-build
// --modules), if the driver works without them.
func (n *Node) narrow() error {
	if n.found == nil {
		return nil
	}
	var modules []string
	for _, name := range n.want.Modules {
		_, there := n.found.File(name)
		switch {
		case there || slices.Contains(driverinfo.RequiredModules(), name): // those are required: see checkParams
			modules = append(modules, name)
		case n.cfg.DRM && (name == "nvidia-drm" || name == "nvidia-modeset"):
			return fmt.Errorf("%w: --drm (DRIVER_DRM) asks for nvidia-drm, but the modules for kernel %s (%s) have no %s: use an image that was built with it (driver-build --modules), or leave --drm out",
				config.ErrConfig, n.want.Release, n.source, name)
		case name == "nvidia-peermem":
			n.warn("GPUDirect RDMA is asked for, but the modules for kernel %s (%s) have no nvidia-peermem: use an image that was built with it", n.want.Release, n.source)
		default:
			n.log.Info("module not in this set, it is not loaded", "module", name, "kernel", n.want.Release, "source", n.source)
		}
	}
	n.want.Modules = modules
	return nil
}

// rdma reports whether nvidia-peermem can be loaded now: it needs Mellanox's modules.
func (n *Node) rdma() (bool, error) {
	if !n.cfg.RDMA {
		return false, nil
	}
	there, err := n.Hardware.Mellanox()
	if err != nil || !there {
		return false, err
	}
	loaded, err := n.isLoaded("mlx5_core")
	if err == nil && !loaded {
		n.warn("mlx5_core is not loaded yet, so nvidia-peermem is not loaded: reload_nvidia_peermem does that when it is")
	}
	return loaded, err
}

// decide decides what of the loaded driver stays. If nvidia is the wanted one, the driver is
// adopted: load adds the modules that it lacks and replaces only those that differ. Otherwise all
// of it has to be replaced.
func (n *Node) decide() (err error) {
	wanted := n.wanted()
	if n.prev != nil && n.prev.Source != status.FromHost {
		wanted.Recorded = n.prev.Modules
	}
	n.loaded, err = compare(n.Kernel, wanted)
	if err != nil {
		return err
	}
	switch {
	case n.loaded.Whole():
		n.log.Info("the driver is loaded as wanted, adopting it", "driver", n.want.Driver)
	case n.loaded.Adopted:
		n.log.Info("the driver is loaded in part, adopting and completing it", "driver", n.want.Driver, "reason", strings.Join(n.loaded.Reasons, "; "))
	case len(n.loaded.Reasons) > 0:
		n.log.Info("a driver is loaded that has to be replaced", "reason", n.loaded.Reasons[0])
	}
	return nil
}

// wanted returns the driver that this instance would load.
func (n *Node) wanted() wantedDriver {
	w := wantedDriver{Driver: n.want.Driver, Flavour: n.want.Flavour, Options: n.options, Files: n.files()}
	for _, file := range n.want.Modules {
		w.Modules = append(w.Modules, underscores(file))
	}
	return w
}

// checkParams refuses parameters that the modules do not have, before anything is loaded: the
// kernel would only log them.
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
			return fmt.Errorf("%w: %w; correct %s/%s.conf or /etc/modprobe.d", config.ErrConfig, err, n.cfg.Drivers, name)
		}
	}
	return nil
}

// facts returns what this instance knows, for preflight.
func (n *Node) facts() preflight.Input {
	whole := n.loaded.Whole()
	signer := n.Supplier.Signer(n.found, n.source)
	in := preflight.Input{Release: n.want.Release, Flavour: n.want.Flavour, GPUs: n.gpus, HaveModules: n.found != nil || whole, Source: n.source, Stays: whole,
		Damaged: n.damaged, SignWith: signer, RDMA: slices.Contains(n.want.Modules, "nvidia-peermem"), Companions: n.want.Companions,
		GPUDirect: func() (text, fix string) { return n.group().Check(n.want.Release) }}
	if n.prev != nil {
		in.Previous = n.prev.Version
	}
	if n.byHost() {
		in.HostModules = n.hostUnfit
	}
	if n.found != nil {
		in.Certificate = n.found.SigningCertificate()
		in.Resign = signer != nil
	}
	for _, name := range n.want.Modules {
		if n.found == nil {
			in.Load = append(in.Load, preflight.Loading{Name: name})
		} else if f, ok := n.found.File(name); ok {
			in.Load = append(in.Load, preflight.Loading{Name: name, Path: f.Path})
		}
	}
	return in
}

// getModules makes the modules unless the loaded ones stay.
func (n *Node) getModules(ctx context.Context) error {
	if n.byHost() {
		if text, fix := n.hostUnfit(); text != "" { // preflight was told to let it pass
			return fmt.Errorf("%w: %s. %s", config.ErrConfig, text, fix)
		}
		return nil
	}
	if n.loaded.Whole() {
		n.makeCompanions(ctx)
		return ctx.Err()
	}
	known := n.found != nil
	if err := n.makeModules(ctx); err != nil {
		return err
	}
	if err := n.checkParams(); err != nil || known || !n.loaded.Adopted {
		return err
	}
	return n.decide() // now there are files that the loaded modules can be compared with
}

// makeModules compiles modules that were not found, and signs them if a key is mounted for that.
func (n *Node) makeModules(ctx context.Context) error {
	if n.found == nil {
		set, err := n.Supplier.Compile(ctx, n.want, CompileEvents{Waits: n.waitsForToolkit, Warn: n.warn})
		n.status.Change(func(st *status.Snapshot) {
			switch {
			case err == nil:
				st.Counters.Compiled++
			case errors.As(err, new(*kbuild.CompileError)):
				st.Counters.CompilesFailed++
			}
		})
		if err != nil {
			return err
		}
		n.found = set
		n.source = status.Compiled
		n.fresh = true
	}
	if n.Supplier.Signer(n.found, n.source) != nil {
		set, err := n.Supplier.Sign(ctx, n.found)
		if err != nil {
			return err
		}
		n.found = set
		n.fresh = true
	}
	return nil
}

// waitsForToolkit sets in the status that another container compiles; with "" the start goes on.
func (n *Node) waitsForToolkit(reason string) {
	if reason == "" {
		n.status.Set(status.Starting, "")
		return
	}
	n.status.Wait(status.ForToolkit, reason, nil)
}

// stage copies the driver root to the host's storage if there is any, and keeps the modules there.
// It does not touch the root that is served now.
func (n *Node) stage(ctx context.Context) error {
	dir, err := n.Roots.Stage(ctx, n.needed())
	if err != nil {
		return err
	}
	n.record = status.Driver{Version: n.want.Driver, Flavour: n.want.Flavour, Source: n.source, Signer: n.found.SignedBy(),
		RootID: n.Info.ID, CUDA: n.Info.CUDA, RootDir: dir}
	return n.keepOnHost(ctx)
}
