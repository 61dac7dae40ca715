package node

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/driver-container/driver-container/node/status"
)

// recover removes what no driver uses: if none is loaded, every mount and everything that was made
// for one. What a loaded driver has stays as it is until the phases replace and root, however it is
// mounted.
func (n *Node) recover(ctx context.Context) error {
	layers, err := n.Roots.Mounted()
	if err != nil {
		return err
	}
	loaded, err := n.isLoaded("nvidia")
	if err != nil {
		return err
	}
	path := status.RootPath(n.cfg.Run)
	if loaded {
		if layers > 1 {
			n.warn(
				"%d driver roots are stacked on %s; one root takes their place when the driver is served",
				layers,
				path,
			)
		}
		return nil
	}
	err = n.sweep(ctx, layers > 0)
	if err != nil || layers == 0 {
		return err
	}
	n.log.Warn(
		"a driver root is mounted but no driver is loaded, removing it",
		"path",
		path,
		"layers",
		layers,
	)
	return n.Roots.Unmount(ctx)
}

// sweep removes what a predecessor put up for modules that are not loaded any more. The status
// names it until it is removed.
func (n *Node) sweep(ctx context.Context, mounted bool) error {
	if n.prev != nil || mounted {
		err := n.Roots.ClearFirmware()
		if err != nil {
			return err
		}
	}
	if n.prev != nil {
		n.stack().DeleteInTree(ctx, n.prev.InTree)
		n.removeNodes(n.prev.Nodes)
	}
	n.prev = nil
	n.status.Change(func(st *status.Snapshot) { st.Up = nil })
	return nil
}

func (n *Node) isLoaded(module string) (bool, error) {
	_, err := n.Kernel.Module(module)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func underscores(file string) string { return strings.ReplaceAll(file, "-", "_") }
