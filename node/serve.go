package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

// serveRoot replaces the served root by the root of this driver, and makes the kernel search in it
// for firmware. From here on this instance takes an adopted driver down: first its modules, then
// its root.
func (n *Node) serveRoot(ctx context.Context) error {
	n.up = append(n.up, n.rootStep())
	if n.loaded.Adopted {
		n.takeOver()
		n.up = append(n.up, n.modulesStep())
	} else {
		n.driver = n.record
	}
	dir, err := n.putRoot(ctx)
	if err != nil {
		return err
	}
	if n.driver.RootID == "" || dir == n.record.RootDir {
		n.driver.RootID = n.record.RootID
	}
	n.driver.RootDir = dir
	// before the path: a successor clears it even if another program has unmounted the root
	n.showDriver()
	n.setFirmware()
	return nil
}

func (n *Node) rootStep() step {
	return step{name: "root", down: func(ctx context.Context) error {
		return errors.Join(n.Roots.ClearFirmware(), n.Roots.Unmount(ctx))
	}}
}

// setFirmware makes the kernel look for firmware in the root. Only GPUs with a GSP need that.
func (n *Node) setFirmware() {
	err := twice(n.Roots.Firmware)
	if err != nil {
		n.warn("firmware: %v", err)
	}
	n.driver.Firmware = err == nil
}

// putRoot keeps the root that a predecessor serves if it is of this driver, and mounts ours
// otherwise. It returns the folder of the root that is served.
func (n *Node) putRoot(ctx context.Context) (dir string, err error) {
	if n.loaded.Adopted {
		dir, err = n.Roots.Adopt(ctx)
		if err == nil || ctx.Err() != nil {
			return dir, ctx.Err()
		}
		n.log.Info("the driver root is served again", "reason", err)
	}
	err = n.Roots.Unmount(ctx)
	if err != nil {
		return "", err
	}
	return n.record.RootDir, n.mountRoot(ctx, n.record.RootDir)
}

func (n *Node) mountRoot(ctx context.Context, dir string) error {
	// all modules, including those that this program does not load: a sidecar may need
	// nvidia-peermem
	if n.found != nil {
		err := n.Roots.AddModules(ctx, dir, n.found.Modules)
		if err != nil {
			n.warn("modprobe inside of the driver root will not find the modules: %v", err)
		}
		err = n.Roots.SetOptions(dir, n.options)
		if err != nil {
			n.warn(
				"modprobe inside of the driver root will not know the parameters of modules: %v",
				err,
			)
		}
	}
	err := n.Roots.Mount(ctx, dir)
	if err != nil {
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

// startDaemons starts nvidia-persistenced and the other daemons that this machine needs. While one
// does not start, the node is not ready, and the watch tries again: ending would only restart the
// container.
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
