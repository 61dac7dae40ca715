package node

import (
	"context"

	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

// unload removes the modules of a driver and what was made for them.
func (n *Node) unload(ctx context.Context, d status.Driver) error {
	notes, err := n.stack().Unload(ctx, d)
	if err != nil {
		return err
	}
	if notes != "" {
		n.Log.Warn("unloaded with the driver", "reason", notes)
	}
	n.removeNodes(d.Nodes)
	return nil
}

// removeNodes only warns if it fails: a device file without a driver harms nobody.
func (n *Node) removeNodes(nodes []devices.Node) {
	err := twice(func() error { return n.Hardware.RemoveNodes(nodes) })
	if err != nil {
		n.warn("remove device files: %v", err)
	}
}

// twice tries once more what failed, and is part of a way back.
func twice(f func() error) error {
	err := f()
	if err == nil {
		return nil
	}
	return f()
}
