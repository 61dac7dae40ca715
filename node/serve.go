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
	r := root{Node: n, Staged: up.Staged}
	if up.Loaded.Adopted {
		up.Driver = r.adopt()
		up.Steps = append(up.Steps, modulesStep)
	}
	dir, err := r.put(ctx)
	if err != nil {
		return up, err
	}
	if up.Driver.RootID == "" || dir == up.Record.RootDir {
		up.Driver.RootID = up.Record.RootID
	}
	up.Driver.RootDir = dir
	// before the path: a successor clears it even if another program has unmounted the root
	n.Status.Record(up.Driver)
	up.Driver.Firmware = r.setFirmware()
	return up, nil
}

// root is the driver root of a staged driver.
type root struct {
	*Node
	Staged
}

// adopt returns a predecessor's record of the driver, as far as it is still true.
func (r root) adopt() status.Driver {
	d := status.Driver{Signer: r.Record.Signer}
	if r.Previous != nil && r.Previous.Version != "" {
		d = *r.Previous
	}
	d.Version = r.Want.Driver
	d.Flavour = r.Want.Flavour
	if r.cfg.ByHost() {
		d.Modules = loadedByHost(r.Kernel, r.Want)
		d.Source = status.FromHost
		return d
	}
	d.Modules = stillLoaded(r.Kernel, d.Modules, r.files())
	if d.Source == "" || d.Source == status.FromHost {
		d.Source = status.Adopted
	}
	return d
}

// setFirmware makes the kernel look for firmware in the root, and reports whether it does. Only
// GPUs with a GSP need that.
func (r root) setFirmware() bool {
	err := twice(r.Roots.Firmware)
	if err != nil {
		r.warn("firmware: %v", err)
	}
	return err == nil
}

// put keeps the root that a predecessor serves if it is of this driver, and mounts ours
// otherwise. It returns the folder of the root that is served.
func (r root) put(ctx context.Context) (dir string, err error) {
	if r.Loaded.Adopted {
		dir, err = r.Roots.Adopt(ctx)
		if err == nil || ctx.Err() != nil {
			return dir, ctx.Err()
		}
		r.Log.Info("the driver root is served again", "reason", err)
	}
	err = r.Roots.Unmount(ctx)
	if err != nil {
		return "", err
	}
	return r.Record.RootDir, r.mount(ctx, r.Record.RootDir)
}

func (r root) mount(ctx context.Context, dir string) error {
	// all modules, including those that this program does not load: a sidecar may need
	// nvidia-peermem
	if r.Set != nil {
		err := r.Roots.AddModules(ctx, dir, r.Set.Modules)
		if err != nil {
			r.warn("modprobe inside of the driver root will not find the modules: %v", err)
		}
		err = r.Roots.SetOptions(dir, r.Staged.Options)
		if err != nil {
			r.warn("modprobe inside of the driver root will not know the parameters of modules: %v",
				err)
		}
	}
	err := r.Roots.Mount(ctx, dir)
	if err != nil {
		return errors.Join(err, r.Roots.Unmount(context.WithoutCancel(ctx)))
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
