package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// The way back is the way there with another choice: the root and the modules of the record.
// Another container can go it only with files that outlive theirs, so every start keeps its modules
// on the host before it loads them.

// keepOnHost lets the modules of the choice be files of the host: those of the image are in its
// staged root, those of a mounted image go into the cache. Modules that were made here follow when
// they have been loaded.
func (n *Node) keepOnHost(ctx context.Context) error {
	if n.found == nil || n.fresh || n.record.RootDir == "" {
		return nil
	}
	switch n.source {
	case status.FromImage:
		set := *n.found
		set.Modules = slices.Clone(set.Modules)
		for i, f := range set.Modules {
			set.Modules[i].Path = inRoot(n.record.RootDir, f.Path)
		}
		n.found = &set
	case status.FromMounted:
		set, err := n.Supplier.Keep(ctx, n.found, n.needed())
		if err != nil {
			n.warn(
				"the modules cannot be kept on the host, so driver %s cannot be put back if a later one fails: %v",
				n.want.Driver,
				err,
			)
			return ctx.Err()
		}
		n.found = set
	}
	return nil
}

// inRoot returns the copy of a container's file in its staged root; the file itself if there is
// none.
func inRoot(root, file string) string {
	kept := filepath.Join(root, file)
	_, err := os.Stat(kept)
	if err != nil {
		return file
	}
	return kept
}

// onHost returns a record with the paths of modules on the host. An earlier version of this program
// recorded their paths in its container.
func onHost(d *status.Driver) *status.Driver {
	if d == nil || d.RootDir == "" {
		return d
	}
	found := *d
	found.Modules = slices.Clone(d.Modules)
	for i, m := range found.Modules {
		found.Modules[i].File = inRoot(d.RootDir, m.File)
	}
	return &found
}

// needed returns the paths of all files that a way back may need.
func (n *Node) needed() (paths []string) {
	drivers := []status.Driver{n.driver, n.replaced}
	if n.prev != nil {
		drivers = append(drivers, *n.prev)
	}
	for _, d := range drivers {
		paths = append(paths, d.RootDir)
		for _, m := range d.Modules {
			paths = append(paths, m.File)
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}

// wayBack returns the choice of a driver that is recorded, or why its files are not at hand.
// Companions without files are left out.
func wayBack(d status.Driver) (choice, error) {
	switch {
	case d.Source == status.FromHost:
		return choice{}, errors.New(
			"the node's own system had loaded it; load it there again (modprobe)",
		)
	case len(d.Modules) == 0:
		return choice{}, errors.New(
			"it was not loaded by this program, so its files are not known; start its container again",
		)
	case d.RootDir == "":
		return choice{}, errors.New(
			"its root ended with its container, which had no storage of the host " +
				"(/var/lib/nvidia-driver, hostStateDir); start its container again",
		)
	}
	_, err := os.Stat(d.RootDir)
	if err != nil {
		return choice{}, fmt.Errorf("its root is gone: %w; start its container again", err)
	}
	own, companions := modules.Split(d.Modules)
	err = modules.CheckFiles(own)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf(
			"its modules were files of its container, which has ended: %w; start its container again",
			err,
		)
	}
	if err != nil {
		return choice{}, err
	}
	companions = slices.DeleteFunc(companions, func(m status.Module) bool {
		return modules.CheckFiles([]status.Module{m}) != nil
	})
	return chosenBefore(d, own, companions), nil
}

// chosenBefore is the choice that the instance of a record had made.
func chosenBefore(d status.Driver, own, companions []status.Module) choice {
	c := choice{options: kmod.Options{}, found: &kbuild.Set{}, source: d.Source, record: d}
	c.record.Modules = nil // the phases record what they put up
	c.record.InTree = nil
	c.record.Nodes = nil
	c.want.Driver = d.Version
	c.want.Flavour = d.Flavour
	for _, m := range slices.Concat(own, companions) {
		params := map[string]string{}
		for _, p := range m.Params {
			name, _, _ := strings.Cut(p, "=")
			params[name] = ""
		}
		c.options[m.Name] = m.Params
		c.found.Modules = append(
			c.found.Modules,
			kbuild.File{Name: m.Name, Path: m.File, SHA256: m.SHA256,
				Info: kmod.Info{
					Name:       m.Name,
					Version:    m.Version,
					SrcVersion: m.SrcVersion,
					Depends:    d.InTree,
					Params:     params,
				}},
		)
	}
	for _, m := range own {
		c.want.Modules = append(c.want.Modules, m.Name)
	}
	for _, m := range companions {
		name := strings.TrimSuffix(filepath.Base(m.File), ".ko")
		c.want.Companions = append(c.want.Companions, name)
		c.info.Companions = append(
			c.info.Companions,
			driverinfo.Companion{Name: name, Version: m.Version},
		)
	}
	return c
}

// restore puts the old driver up again. What fails is tried once more, because nothing else is left
// to try.
func (n *Node) restore(ctx context.Context, old status.Driver) error {
	back, err := wayBack(old)
	if err != nil {
		return err
	}
	there := n.choice
	up := n.up
	defer func() {
		n.choice = there
		n.up = up
	}()
	n.choice = back
	n.up = nil
	return twice(func() error {
		for _, p := range n.putUp() {
			err := p.run(ctx)
			if err != nil {
				return errors.Join(fmt.Errorf("%s: %w", p.name, err), n.tryDown(ctx))
			}
		}
		return nil
	})
}
