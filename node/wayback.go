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

// The way back is the way there with another driver: the root and the modules of the record.
// Another container can go it only with files that outlive theirs, so every start keeps its modules
// on the host before it loads them.

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

// wayBack returns a driver that is recorded as one that can be put up, or why its files are not at
// hand. Companions without files are left out.
func wayBack(d status.Driver) (Staged, error) {
	switch {
	case d.Source == status.FromHost:
		return Staged{}, errors.New(
			"the node's own system had loaded it; load it there again (modprobe)",
		)
	case len(d.Modules) == 0:
		return Staged{}, errors.New("it was not loaded by this program, " +
			"so its files are not known; start its container again")
	case d.RootDir == "":
		return Staged{}, errors.New("its root ended with its container, which had no storage of " +
			"the host (/var/lib/nvidia-driver, hostStateDir); start its container again")
	}
	_, err := os.Stat(d.RootDir)
	if err != nil {
		return Staged{}, fmt.Errorf("its root is gone: %w; start its container again", err)
	}
	own, companions := modules.Split(d.Modules)
	err = modules.CheckFiles(own)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("its modules were files of its container, which has ended: %w; "+
			"start its container again", err)
	}
	if err != nil {
		return Staged{}, err
	}
	companions = slices.DeleteFunc(companions, func(m status.Module) bool {
		return modules.CheckFiles([]status.Module{m}) != nil
	})
	return restage(d, own, companions), nil
}

// restage returns a recorded driver as its own instance had staged it.
func restage(d status.Driver, own, companions []status.Module) (staged Staged) {
	staged.Options = kmod.Options{}
	staged.Source = d.Source
	staged.Want.Driver = d.Version
	staged.Want.Flavour = d.Flavour
	staged.Record = d
	staged.Record.Modules = nil // the phases record what they put up
	staged.Record.InTree = nil
	staged.Record.Nodes = nil
	set := &kbuild.Set{}
	for _, m := range slices.Concat(own, companions) {
		staged.Options[m.Name] = m.Params
		set.Modules = append(set.Modules, moduleFile(m, d.InTree))
	}
	staged.Set = set
	for _, m := range own {
		staged.Want.Modules = append(staged.Want.Modules, m.Name)
	}
	for _, m := range companions {
		name := strings.TrimSuffix(filepath.Base(m.File), ".ko")
		staged.Want.Companions = append(staged.Want.Companions, name)
		c := driverinfo.Companion{Name: name, Version: m.Version}
		staged.Info.Companions = append(staged.Info.Companions, c)
	}
	return staged
}

// moduleFile returns a recorded module as a file of a set. It knows the parameters that it was
// loaded with.
func moduleFile(m status.Module, depends []string) kbuild.File {
	params := map[string]string{}
	for _, p := range m.Params {
		name, _, _ := strings.Cut(p, "=")
		params[name] = ""
	}
	info := kmod.Info{
		Name:       m.Name,
		Version:    m.Version,
		SrcVersion: m.SrcVersion,
		Depends:    depends,
		Params:     params,
	}
	return kbuild.File{Name: m.Name, Path: m.File, SHA256: m.SHA256, Info: info}
}

// restore puts the driver up again that this instance had replaced. What fails is tried once more,
// because nothing else is left to try.
func restore(ctx context.Context, n *Node, old status.Driver) (back Served, err error) {
	staged, err := wayBack(old)
	if err != nil {
		return back, err
	}
	err = twice(func() error {
		back = Served{Staged: staged}
		for _, p := range putUp(&back) {
			err := p.run(ctx, n)
			if err != nil {
				down := ending{Node: n, up: &back}
				return errors.Join(fmt.Errorf("%s: %w", p.name, err), down.tryDown(ctx))
			}
		}
		return nil
	})
	return back, err
}
