package node

import (
	"context"
	"errors"

	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

// serveRoot replaces the served root by the root of this driver, and makes the kernel search in it
// for firmware. From here on this instance takes an adopted driver down: first its modules, then
// its root.
func (n *Node) serveRoot(ctx context.Context, up Served) (Served, error) {
	up.Steps = append(up.Steps, rootStep)
	up.Driver = up.Record
	if up.Loaded.Adopted {
		up.Driver = n.adopt(up.Staged)
		up.Steps = append(up.Steps, modulesStep)
	}
	dir, err := n.putRoot(ctx, up.Staged)
	if err != nil {
		return up, err
	}
	if up.Driver.RootID == "" || dir == up.Record.RootDir {
		up.Driver.RootID = up.Record.RootID
	}
	up.Driver.RootDir = dir
	// before the path: a successor clears it even if another program has unmounted the root
	n.Status.Record(up.Driver)
	up.Driver.Firmware = n.setFirmware()
	return up, nil
}

// adopt returns a predecessor's record of the driver, as far as it is still true.
func (n *Node) adopt(staged Staged) status.Driver {
	d := status.Driver{Signer: staged.Record.Signer}
	if staged.Previous != nil && staged.Previous.Version != "" {
		d = *staged.Previous
	}
	d.Version = staged.Want.Driver
	d.Flavour = staged.Want.Flavour
	if n.byHost() {
		d.Modules = loadedByHost(n.Kernel, staged.Want)
		d.Source = status.FromHost
		return d
	}
	d.Modules = stillLoaded(n.Kernel, d.Modules, staged.files())
	if d.Source == "" || d.Source == status.FromHost {
		d.Source = status.Adopted
	}
	return d
}

// setFirmware makes the kernel look for firmware in the root, and reports whether it does. Only
// GPUs with a GSP need that.
func (n *Node) setFirmware() bool {
	err := twice(n.Roots.Firmware)
	if err != nil {
		n.warn("firmware: %v", err)
	}
	return err == nil
}

// putRoot keeps the root that a predecessor serves if it is of this driver, and mounts ours
// otherwise. It returns the folder of the root that is served.
func (n *Node) putRoot(ctx context.Context, staged Staged) (dir string, err error) {
	if staged.Loaded.Adopted {
		dir, err = n.Roots.Adopt(ctx)
		if err == nil || ctx.Err() != nil {
			return dir, ctx.Err()
		}
		n.Log.Info("the driver root is served again", "reason", err)
	}
	err = n.Roots.Unmount(ctx)
	if err != nil {
		return "", err
	}
	return staged.Record.RootDir, n.mountRoot(ctx, staged.ModuleSet, staged.Record.RootDir)
}

func (n *Node) mountRoot(ctx context.Context, m ModuleSet, dir string) error {
	// all modules, including those that this program does not load: a sidecar may need
	// nvidia-peermem
	if m.Set != nil {
		err := n.Roots.AddModules(ctx, dir, m.Set.Modules)
		if err != nil {
			n.warn("modprobe inside of the driver root will not find the modules: %v", err)
		}
		err = n.Roots.SetOptions(dir, m.Options)
		if err != nil {
			n.warn("modprobe inside of the driver root will not know the parameters of modules: %v",
				err)
		}
	}
	err := n.Roots.Mount(ctx, dir)
	if err != nil {
		return errors.Join(err, n.Roots.Unmount(context.WithoutCancel(ctx)))
	}
	return nil
}

// makeNodes makes the device files. They are removed together with the modules.
func (n *Node) makeNodes(ctx context.Context, up Served) (Served, error) {
	err := n.Hardware.CreateNodes(ctx, func(missing []devices.Node) {
		up.Driver.Nodes = devices.Union(up.Driver.Nodes, missing)
		n.Status.Record(up.Driver)
	})
	return up, err
}

// startDaemons starts nvidia-persistenced and the other daemons that this machine needs. While one
// does not start, the node is not ready, and the watch tries again: ending would only restart the
// container.
func (n *Node) startDaemons(ctx context.Context, up Served) (Served, error) {
	up.Daemons, up.DaemonsErr = n.StartDaemons(ctx)
	if up.DaemonsErr != nil && ctx.Err() != nil {
		return up, ctx.Err()
	}
	up.Steps = append(up.Steps, daemonsStep)
	if up.Daemons != nil {
		n.Status.Daemons(up.Daemons.States())
	}
	return up, nil
}
