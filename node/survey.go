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
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// survey finds out what this node needs and what it has already: GPUs, flavour, parameters, modules
// that need no compiling, and whether the loaded driver can stay. It changes nothing.
func (n *Node) survey(ctx context.Context, previous *status.Driver) (facts Facts, err error) {
	facts.Previous = previous
	facts.Info = n.Info
	facts.GPUs, err = n.Hardware.GPUs()
	if err != nil {
		return facts, err
	}
	facts.Options, err = n.Hardware.Options()
	if err != nil {
		return facts, fmt.Errorf("%w: module parameters: %w", config.ErrConfig, err)
	}
	n.Hardware.KernelLog() // from here on it counts
	if n.cfg.ByHost() {
		return n.surveyHost(facts)
	}
	mellanox, err := n.rdma()
	if err != nil {
		return facts, err
	}
	facts.Want, err = n.choose(facts.GPUs, n.Release, mellanox)
	if err != nil {
		return facts, err
	}
	facts.ModuleSet, err = n.find(ctx, facts.ModuleSet)
	if err != nil {
		return facts, err
	}
	err = facts.checkParams(n.cfg.Drivers)
	if err != nil {
		return facts, err
	}
	facts.Loaded, err = n.compareLoaded(facts)
	return facts, err
}

// choose chooses the flavour of the modules for a kernel, and returns what want does.
func (n *Node) choose(gpus []devices.GPU, release string, mellanox bool) (Want, error) {
	flavour, reason, err := n.Hardware.Flavour(gpus, release, n.cfg.ModuleType)
	if err != nil {
		return Want{}, fmt.Errorf("%w: %w", config.ErrConfig, err)
	}
	n.Log.Info("driver chosen", "driver", n.Info.Driver, "flavour", flavour, "kernel", release,
		"gpus", len(gpus), "reason", reason)
	return want(n.cfg, n.Info.Driver, flavour, release, mellanox), nil
}

// want returns the modules of this image's driver for a kernel. The files to load are in order,
// under the names of the driver's own build.
func want(cfg config.Config, driver, flavour, release string, mellanox bool) Want {
	w := Want{
		Driver:     driver,
		Flavour:    flavour,
		Release:    release,
		Modules:    append(driverinfo.RequiredModules(), "nvidia-modeset"),
		Companions: modules.Wanted(cfg.GDS, cfg.GDRCopy),
	}
	add := func(module string, load bool) {
		if load {
			w.Modules = append(w.Modules, module)
		} else {
			w.Optional = append(w.Optional, module)
		}
	}
	add("nvidia-drm", cfg.DRM)
	add("nvidia-peermem", cfg.RDMA && mellanox)
	return w
}

// find searches for existing modules. Damaged ones do not count, and a warning says so.
func (n *Node) find(ctx context.Context, m ModuleSet) (ModuleSet, error) {
	set, source, err := n.Supplier.Find(ctx, m.Want)
	missed := errors.Is(err, kbuild.ErrMiss)
	if n.Status.Get().State != status.Waiting { // else the same start has searched before
		n.Status.Count(func(c *status.Counters) {
			if missed {
				c.CacheMisses++
			}
			if err == nil && source == status.FromCache {
				c.CacheHits++
			}
		})
	}
	corrupt, damaged := errors.AsType[*kbuild.CorruptError](err)
	switch {
	case damaged:
		m.Damaged = corrupt.Error()
		if source == status.FromImage {
			m.Damaged = "the image is damaged, pull it again: " + m.Damaged
		}
		n.warn("%s", m.Damaged)
		return m, nil
	case missed:
		return m, nil
	case err != nil:
		return m, err
	}
	m.Set = set
	m.Source = source
	m.Want.Modules, err = n.narrow(m)
	return m, err
}

// narrow returns the modules to load without those that the set lacks because its builder left them
// out (driver-build --modules), if the driver works without them.
func (n *Node) narrow(m ModuleSet) (modules []string, err error) {
	for _, name := range m.Want.Modules {
		_, there := m.Set.File(name)
		switch {
		// the required ones checkParams reports
		case there || slices.Contains(driverinfo.RequiredModules(), name):
			modules = append(modules, name)
		case n.cfg.DRM && (name == "nvidia-drm" || name == "nvidia-modeset"):
			return nil, fmt.Errorf("%w: --drm (DRIVER_DRM) asks for nvidia-drm, "+
				"but the modules for kernel %s (%s) have no %s: "+
				"use an image that was built with it (driver-build --modules), or leave --drm out",
				config.ErrConfig, m.Want.Release, m.Source, name)
		case name == "nvidia-peermem":
			n.warn("GPUDirect RDMA is asked for, but the modules for kernel %s (%s) "+
				"have no nvidia-peermem: use an image that was built with it",
				m.Want.Release, m.Source)
		default:
			n.Log.Info("module not in this set, it is not loaded",
				"module", name, "kernel", m.Want.Release, "source", m.Source)
		}
	}
	return modules, nil
}

// rdma reports whether nvidia-peermem can be loaded now: it needs Mellanox's modules.
func (n *Node) rdma() (bool, error) {
	if !n.cfg.RDMA {
		return false, nil
	}
	card, err := n.Hardware.Mellanox()
	if err != nil {
		return false, err
	}
	if !card {
		n.warn("there is no network card for RDMA (15b3) on the PCI bus, so nvidia-peermem is not loaded: " +
			"switch GPUDirect RDMA off for nodes without such a card")
		return false, nil
	}
	loaded, err := isLoaded(n.Kernel, "mlx5_core")
	if err != nil {
		return false, err
	}
	if !loaded {
		n.warn("mlx5_core is not loaded yet, so nvidia-peermem is not loaded: " +
			"reload_nvidia_peermem does that when it is")
	}
	return loaded, nil
}

// compareLoaded decides what of the loaded driver stays. If nvidia is the wanted one, the driver is
// adopted: load adds the modules that it lacks and replaces only those that differ. Otherwise all
// of it has to be replaced.
func (n *Node) compareLoaded(facts Facts) (verdict, error) {
	var recorded []status.Module
	if facts.Previous != nil && facts.Previous.Source != status.FromHost {
		recorded = facts.Previous.Modules
	}
	loaded, err := facts.compare(n.Kernel, recorded)
	if err != nil {
		return loaded, err
	}
	switch {
	case loaded.Whole():
		n.Log.Info("the driver is loaded as wanted, adopting it", "driver", facts.Want.Driver)
	case loaded.Adopted:
		n.Log.Info("the driver is loaded in part, adopting and completing it",
			"driver", facts.Want.Driver, "reason", strings.Join(loaded.Reasons, "; "))
	case len(loaded.Reasons) > 0:
		n.Log.Info("a driver is loaded that has to be replaced", "reason", loaded.Reasons[0])
	}
	return loaded, nil
}
