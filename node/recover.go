package node

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/driver-container/driver-container/node/status"
)

// recover removes what no driver uses: stacked mounts, and, if no driver is loaded, every mount and
// everything that was made for a driver.
func (n *Node) recover(ctx context.Context) error {
	layers, err := n.Roots.Mounted()
	if err != nil {
		return err
	}
	loaded, err := n.isLoaded("nvidia")
	if err != nil {
		return err
	}
	if !loaded {
		if err := n.sweep(ctx, layers > 0); err != nil {
			return err
		}
	}
	switch {
	case layers == 0:
		return nil
	case layers > 1:
		n.warn("%d driver roots are stacked on %s; removing all of them", layers, status.RootPath(n.cfg.Run))
	case !loaded:
		n.log.Warn("a driver root is mounted but no driver is loaded, removing it", "path", status.RootPath(n.cfg.Run))
	default:
		return nil // decided later, when it is known what to serve
	}
	return n.Roots.Unmount(ctx)
}

// sweep removes what a predecessor put up for modules that are not loaded any more. The status names it until
// it is removed.
func (n *Node) sweep(ctx context.Context, mounted bool) error {
	if n.prev != nil || mounted {
		if err := n.clearFirmware(); err != nil {
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

// clearFirmware resets the kernel's search path for firmware that a predecessor set; a path that another
// program set stays.
func (n *Node) clearFirmware() error {
	undo, err := n.Roots.Firmware()
	if err != nil {
		return nil //nolint:nilerr // set by another program, or this kernel has none
	}
	return undo()
}

func (n *Node) isLoaded(module string) (bool, error) {
	_, err := n.Kernel.Module(module)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func underscores(file string) string { return strings.ReplaceAll(file, "-", "_") }
