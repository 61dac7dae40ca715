package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

// serveRoot replaces the served root by the root of this driver, and makes the kernel search in it for
// firmware. From here on this instance takes an adopted driver down: first its modules, then its root.
func (n *Node) serveRoot(ctx context.Context) error {
	n.driver.RootDir = n.staged
	var firmware func() error
	n.up = append(n.up, step{name: "root", down: func(ctx context.Context) error {
		var err error
		switch {
		case firmware != nil:
			err = firmware()
		case n.loaded.Adopted:
			err = n.clearFirmware() // the predecessor's
		}
		return errors.Join(err, n.Roots.Unmount(ctx))
	}})
	if n.loaded.Adopted {
		n.takeOver()
		n.up = append(n.up, n.modulesStep())
	}
	if err := n.putRoot(ctx); err != nil {
		return err
	}
	n.driver.Version, n.driver.Flavour = n.want.Driver, n.want.Flavour
	n.showDriver() // before the path: a successor clears it even if another program has unmounted the root
	var err error
	if firmware, err = n.Roots.Firmware(); err != nil {
		n.warn("firmware: %v", err)
	}
	n.driver.Firmware = err == nil
	return nil
}

// putRoot keeps the root that a predecessor serves if it is of this image, and mounts a new one otherwise.
func (n *Node) putRoot(ctx context.Context) error {
	if n.loaded.Adopted {
		ok, why := n.Roots.Adopt(ctx)
		if !ok {
			n.log.Info("the driver root is served again", "reason", why)
		}
		if ok || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := n.Roots.Unmount(ctx); err != nil {
		return err
	}
	return n.mountRoot(ctx)
}

func (n *Node) mountRoot(ctx context.Context) error {
	if n.found != nil { // all modules, including those that this program does not load: a sidecar may need nvidia-peermem
		if err := n.Roots.AddModules(ctx, n.found.Modules); err != nil {
			n.warn("modprobe inside of the driver root will not find the modules: %v", err)
		}
	}
	if err := n.Roots.Mount(ctx); err != nil {
		return errors.Join(err, n.Roots.Unmount(context.WithoutCancel(ctx)))
	}
	return nil
}

// makeNodes makes the device files. They are removed together with the modules.
func (n *Node) makeNodes(ctx context.Context) error {
	return n.Hardware.CreateNodes(ctx, func(missing []devices.Node) {
		n.driver.Nodes = devices.Union(n.driver.Nodes, missing)
		n.showDriver()
	})
}

// startDaemons starts nvidia-persistenced and the other daemons that this machine needs. While one does not
// start, the node is not ready, and the watch tries again: ending would only restart the container.
func (n *Node) startDaemons(ctx context.Context) error {
	if err := n.tryDaemons(ctx); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	n.up = append(n.up, step{
		name: "daemons",
		down: func(ctx context.Context) error {
			if n.daemons == nil {
				return nil
			}
			if err := n.daemons.Stop(ctx); err != nil {
				return fmt.Errorf("stop the daemons: %w", err)
			}
			n.daemons = nil
			n.status.Change(func(st *status.Snapshot) { st.Daemons = nil })
			return nil
		},
		redo: n.tryDaemons,
	})
	return nil
}

func (n *Node) tryDaemons(ctx context.Context) error {
	d, err := n.StartDaemons(ctx)
	n.daemonsErr = err
	if err != nil {
		return err
	}
	n.daemons = d
	n.status.Change(func(st *status.Snapshot) { st.Daemons = d.States() })
	return nil
}
