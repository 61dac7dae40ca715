package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/fabric"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// The values that the phases of a start take and make.

// Held is the node in the hands of this instance.
type Held struct {
	Lock     Lock           // nil: it never had the node
	Previous *status.Driver // what a predecessor of this boot left loaded; nil: nothing
}

// ModuleSet is the modules of one driver for one kernel, and how they are to be loaded.
type ModuleSet struct {
	Info    driverinfo.Description // of the driver's image
	Want    Want
	Options kmod.Options
	Set     *kbuild.Set // the files; nil: there are none yet
	Source  string      // of Set, as in status.Driver
	Fresh   bool        // Set was compiled or signed here and is not in the cache yet
	Damaged string      // what the search for Set found damaged
}

// Facts are what a survey found out about the machine.
type Facts struct {
	Previous *status.Driver // see Held
	GPUs     []devices.GPU
	ModuleSet
	Loaded verdict // what of the loaded driver stays
}

// Staged is a driver whose files are all on this machine.
type Staged struct {
	Facts
	Record status.Driver // of the driver before anything of it is loaded
}

// Served is a driver that is being put up, is up, or is being taken down.
type Served struct {
	Staged
	Driver     status.Driver // the record of what is up now
	Replaced   status.Driver // the driver that this instance has taken down
	Steps      []step        // what this instance has put up, newest last
	Daemons    Daemons
	DaemonsErr error // why the daemons could not be started
	Seen       Seen
}

// Seen is what the instance has seen of its driver since it is up.
type Seen struct {
	GPUs     probe.Watch
	Fabric   fabric.Registration // of the GPUs with their NVLink fabric
	Reason   string              // the last one that a look at modules, mounts and daemons found
	Unmarked bool                // the markers say that the driver is ready, and it is not
}

// step is something that is up, and that a stop takes down.
type step string

// The steps, in the order in which they are put up.
const (
	restoreStep step = "restore" // the older driver is gone, and comes back if the new one fails
	rootStep    step = "root"
	modulesStep step = "modules" // with the device files
	daemonsStep step = "daemons"
)

// needed returns the paths of all files that a way back may need; the folder that has them all if
// the record is not known.
func (n *Node) needed(previous *status.Driver, drivers ...status.Driver) (paths []string) {
	if n.Status.PredecessorUnknown() {
		return []string{n.cfg.StateDir}
	}
	if previous != nil {
		drivers = append(drivers, *previous)
	}
	for _, d := range drivers {
		paths = append(paths, d.RootDir)
		for _, m := range d.Modules {
			paths = append(paths, m.File)
		}
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}

// files returns the modules to load, of those that were found.
func (m ModuleSet) files() (files []status.Module) {
	if m.Set == nil {
		return nil
	}
	for _, name := range m.Want.Modules {
		f, found := m.Set.File(name)
		if !found {
			continue
		}
		module := kmod.ModuleName(name)
		files = append(files, status.Module{
			Name:       module,
			SrcVersion: f.Info.SrcVersion,
			File:       f.Path,
			SHA256:     f.SHA256,
			Params:     m.Options.For(module),
		})
	}
	return files
}

// checkParams refuses parameters that the modules do not have, before anything is loaded: the
// kernel would only log them. Without files there is nothing to check yet.
func (m ModuleSet) checkParams(folder string) error {
	if m.Set == nil {
		return nil
	}
	for _, name := range m.Want.Modules {
		f, found := m.Set.File(name)
		if !found {
			return fmt.Errorf("the set of modules (%s) has no %s", m.Source, name)
		}
		err := f.Info.CheckParams(m.Options.For(kmod.ModuleName(name)))
		if err != nil {
			return fmt.Errorf("%w: %w; correct %s/%s.conf or /etc/modprobe.d",
				config.ErrConfig, err, folder, name)
		}
	}
	return nil
}

// missing returns the wanted modules that are not loaded.
func (m ModuleSet) missing(k Kernel) (missing []status.Module, err error) {
	for _, file := range m.files() {
		loaded, err := isLoaded(k, file.Name)
		if err != nil {
			return nil, err
		}
		if !loaded {
			missing = append(missing, file)
		}
	}
	return missing, nil
}

// inTree are modules of the kernel that the driver uses without naming them: NVIDIA's own container
// loads them, too.
var inTree = []string{"i2c_core", "ipmi_msghandler", "ipmi_devintf"}

// below returns the modules of the kernel that these modules use.
func (m ModuleSet) below(modules []status.Module) []string {
	names := slices.Clone(inTree)
	for _, module := range modules {
		f, _ := m.Set.File(module.Name)
		for _, dep := range f.Info.Depends {
			if !strings.HasPrefix(dep, "nvidia") {
				names = append(names, dep)
			}
		}
	}
	return names
}
