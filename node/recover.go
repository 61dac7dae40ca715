package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// recover removes what no driver uses: stacked mounts, and, if no driver is loaded, every mount and
// everything that was made for a driver.
func (n *Node) recover(ctx context.Context) error {
	layers, err := n.roots.Mounted()
	if err != nil {
		return err
	}
	loaded, err := n.isLoaded("nvidia")
	if err != nil {
		return err
	}
	if !loaded {
		n.sweep(ctx, layers > 0)
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
	return n.roots.Unmount(ctx)
}

// sweep removes what a predecessor put up for modules that are not loaded any more. The status names it until
// it is removed.
func (n *Node) sweep(ctx context.Context, mounted bool) {
	if n.prev != nil || mounted {
		n.clearFirmware()
	}
	if n.prev != nil {
		n.removeInTree(ctx, n.prev.InTree)
		n.removeNodes(n.prev.Nodes)
	}
	n.prev = nil
	n.status.Change(func(st *status.Snapshot) { st.Up = nil })
}

// clearFirmware resets the kernel's search path for firmware that a predecessor set; a path that another
// program set stays.
func (n *Node) clearFirmware() {
	undo, err := n.roots.Firmware()
	if err != nil {
		return // set by another program, or this kernel has none
	}
	if err := undo(); err != nil {
		n.warn("firmware: %v", err)
	}
}

func (n *Node) isLoaded(module string) (bool, error) {
	_, err := n.kernel.Module(module)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// adoptable reports whether the loaded driver is what this instance would load, so that it can stay;
// otherwise the text says why not.
func (n *Node) adoptable() (bool, string, error) {
	flavour, err := n.kernel.Flavour()
	if err != nil {
		return false, "", err
	}
	if flavour != n.want.Flavour {
		return false, "the " + flavour + " flavour is loaded, wanted is " + n.want.Flavour, nil
	}
	for _, file := range n.want.Modules {
		m, err := n.kernel.Module(underscores(file))
		if errors.Is(err, fs.ErrNotExist) {
			return false, file + " is not loaded", nil
		}
		if err != nil {
			return false, "", err
		}
		if foreign(m, n.want.Driver) {
			return false, fmt.Sprintf("%s %s is loaded, wanted is %s", file, m.Version, n.want.Driver), nil
		}
		if why := n.differs(file, m); why != "" {
			return false, why, nil
		}
	}
	return true, "", nil
}

// differs compares a loaded module with a predecessor's record of it, and with the file that this instance
// would load. It returns the difference; "" if there is none.
func (n *Node) differs(file string, m kmod.Module) string {
	wanted := n.options.For(m.Name)
	known := false
	if n.prev != nil {
		if i := slices.IndexFunc(n.prev.Modules, func(l status.Module) bool { return l.Name == m.Name }); i >= 0 {
			known = true
			old := n.prev.Modules[i]
			if old.SrcVersion != m.SrcVersion {
				return fmt.Sprintf("%s was loaded by somebody else (srcversion %s, ours was %s)", file, m.SrcVersion, old.SrcVersion)
			}
			if !slices.Equal(old.Params, wanted) {
				return fmt.Sprintf("%s was loaded with parameters %q, wanted are %q", file, old.Params, wanted)
			}
		}
	}
	if n.found != nil {
		if f, ok := n.found.File(file); ok {
			known = true
			if f.Info.SrcVersion != m.SrcVersion {
				return fmt.Sprintf("another build of %s is loaded (srcversion %s, ours has %s)", file, m.SrcVersion, f.Info.SrcVersion)
			}
		}
	}
	if !known {
		return file + " was loaded by somebody else: there is no record of it and no file to compare with"
	}
	if diff := n.paramsDiffer(m.Name, wanted); len(diff) > 0 {
		return file + " is loaded with other parameters: " + strings.Join(diff, ", ")
	}
	return ""
}

// paramsDiffer returns the parameters whose values in the kernel differ from the wanted ones; a parameter
// that the kernel does not show counts as equal.
func (n *Node) paramsDiffer(module string, wanted []string) []string {
	shown, err := n.kernel.Params(module)
	if err != nil {
		return nil
	}
	return kmod.Differences(wanted, shown)
}

func underscores(file string) string { return strings.ReplaceAll(file, "-", "_") }
