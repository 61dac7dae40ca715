package fabric

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
)

// Modules are the kernel modules by which NVLink 5 switches are managed.
func Modules() []string { return []string{"mlx5_core", "mlx5_ib", "ib_umad"} }

// awaitPort waits, at most f.Wait, until the modules are loaded and there is a port.
func (f Facts) awaitPort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.Wait)
	defer cancel()
	var asked error
	if missing := f.unloaded(); len(missing) > 0 && f.LoadModules != nil {
		asked = f.LoadModules(ctx, missing...)
	}
	return daemons.Until(
		ctx,
		min(time.Second, f.Wait/10),
		func() error { return f.portError(asked) },
	)
}

// portError says why there is no port yet. asked is why the modules could not be loaded.
func (f Facts) portError(asked error) error {
	if missing := f.unloaded(); len(missing) > 0 {
		why := "the kernel's own modules were asked for"
		if asked != nil {
			why = asked.Error()
		}
		return fmt.Errorf(
			"the NVLink switches of this node are managed over InfiniBand, and kernel module %s is not loaded (%s): install the network "+
				"driver on the node (DOCA-OFED, or the kernel's complete set of modules: on Ubuntu linux-modules-extra) and load the module",
			strings.Join(missing, ", "),
			why,
		)
	}
	_, err := f.Machine.Ports(f.Sys)
	return err
}

// unloaded returns the modules that are not loaded. One that is built in shows by what it made.
func (f Facts) unloaded() []string {
	_, noPort := f.Machine.Ports(f.Sys)
	return slices.DeleteFunc(Modules(), func(name string) bool {
		if noPort == nil && name != "ib_umad" ||
			name == "ib_umad" && f.exists("class/infiniband_mad") {
			return true
		}
		return f.exists("module/" + name)
	})
}

func (f Facts) exists(name string) bool {
	_, err := os.Stat(filepath.Join(f.Sys, name))
	return err == nil
}

// makeNodes makes the device files of ib_umad that the container's /dev lacks: it is as old as the
// container, and the module may be younger.
func (f Facts) makeNodes() error {
	dir := filepath.Join(f.Sys, "class/infiniband_mad")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make the device files of ib_umad: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, "umad") && !strings.HasPrefix(name, "issm") {
			continue
		}
		err := f.makeNode(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("make the device file of %s: %w", name, err)
		}
	}
	return nil
}

func (f Facts) makeNode(dir string) error {
	text, err := bounded.Text(filepath.Join(dir, "dev"), maxSmall)
	if err != nil {
		return err
	}
	var major, minor uint32
	_, err = fmt.Sscanf(text, "%d:%d", &major, &minor)
	if err != nil {
		return err
	}
	return devices.Make(filepath.Join(f.Dev, "infiniband", filepath.Base(dir)), major, minor)
}
