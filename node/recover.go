package node

import (
	"context"
	"errors"
	"io/fs"

	"github.com/driver-container/driver-container/node/status"
)

// recover removes what no driver uses: if none is loaded, every mount and everything that was made
// for one. What a loaded driver has stays as it is until the phases replace and root, however it is
// mounted. It returns the record of what is left.
func (n *Node) recover(ctx context.Context, previous *status.Driver) (*status.Driver, error) {
	layers, err := n.Roots.Mounted()
	if err != nil {
		return previous, err
	}
	loaded, err := isLoaded(n.Kernel, "nvidia")
	if err != nil {
		return previous, err
	}
	path := status.RootPath(n.cfg.Run)
	if loaded {
		if layers > 1 {
			n.warn("%d driver roots are stacked on %s; "+
				"one root takes their place when the driver is served", layers, path)
		}
		return previous, nil
	}
	if previous != nil || layers > 0 {
		err := n.Roots.ClearFirmware()
		if err != nil {
			return previous, err
		}
	}
	if previous != nil {
		n.stack().DeleteInTree(ctx, previous.InTree)
		n.removeNodes(previous.Nodes)
	}
	n.Status.Unrecord() // the status names all of this until it is removed
	if layers == 0 {
		return nil, nil
	}
	n.Log.Warn("a driver root is mounted but no driver is loaded, removing it", "path", path,
		"layers", layers)
	return nil, n.Roots.Unmount(ctx)
}

func isLoaded(k Kernel, module string) (bool, error) {
	_, err := k.Module(module)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, err
}
