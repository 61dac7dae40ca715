package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// verdict says what of the loaded driver can stay. The zero value is the one of a node without a
// driver.
type verdict struct {
	// Adopted says that the loaded nvidia is the wanted one. Otherwise the whole driver has to be
	// replaced.
	Adopted   bool
	Differing []string // modules that have to be replaced, although the nvidia below them stays
	// why nvidia cannot stay, or what is wrong with each module beside it: it differs, or is not loaded
	Reasons []string
}

// Whole reports whether the loaded driver is the wanted one, with all of its modules.
func (v verdict) Whole() bool { return v.Adopted && len(v.Reasons) == 0 }

// compare compares the loaded driver with the wanted one: version, flavour, build (srcversion) and
// parameters of each module. recorded is what an earlier instance loaded, by its own record.
func (m ModuleSet) compare(k Kernel, recorded []status.Module) (v verdict, err error) {
	for _, file := range m.Want.Modules {
		name := kmod.ModuleName(file)
		why, err := m.differs(k, name, recorded)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == "nvidia":
			return verdict{}, nil
		case errors.Is(err, fs.ErrNotExist):
			v.Reasons = append(v.Reasons, name+" is not loaded")
			continue
		case err != nil:
			return verdict{}, err
		case why == "":
			continue
		}
		v.Reasons = append(v.Reasons, why)
		if name == "nvidia" { // it is the first
			return v, nil
		}
		v.Differing = append(v.Differing, name)
	}
	v.Adopted = true
	return v, nil
}

// differs returns the difference between a loaded module and the wanted one; "" if there is none.
// The error is fs.ErrNotExist if the module is not loaded.
func (m ModuleSet) differs(k Kernel, name string, recorded []status.Module) (string, error) {
	live, err := k.Module(name)
	if err != nil {
		return "", err
	}
	if name == "nvidia" {
		flavour, err := k.Flavour()
		if err != nil || flavour != m.Want.Flavour {
			return "the " + flavour + " flavour is loaded, wanted is " + m.Want.Flavour, err
		}
	}
	if foreign(live, m.Want.Driver) {
		return fmt.Sprintf("%s %s is loaded, wanted is %s", name, live.Version, m.Want.Driver), nil
	}
	wanted := m.Options.For(name)
	old, known := status.Named(recorded, name)
	file, found := status.Named(m.files(), name)
	switch {
	case known && old.SrcVersion != live.SrcVersion:
		return fmt.Sprintf(
			"%s was loaded by another program (srcversion %s, ours was %s)",
			name,
			live.SrcVersion,
			old.SrcVersion,
		), nil
	case known && !slices.Equal(old.Params, wanted):
		return fmt.Sprintf(
			"%s was loaded with parameters %q, wanted are %q",
			name,
			old.Params,
			wanted,
		), nil
	case found && file.SrcVersion != live.SrcVersion:
		return fmt.Sprintf(
			"another build of %s is loaded (srcversion %s, ours has %s)",
			name,
			live.SrcVersion,
			file.SrcVersion,
		), nil
	case !known && !found:
		return name + " was loaded by another program: there is no record of it and no file to compare with", nil
	}
	shown, err := k.Params(name)
	if err != nil { // nothing is shown of it: then its parameters count as equal
		return "", nil //nolint:nilerr // see above
	}
	if diff := kmod.Differences(wanted, shown); len(diff) > 0 {
		return name + " is loaded with other parameters: " + strings.Join(diff, ", "), nil
	}
	return "", nil
}

// stillLoaded returns the modules of a predecessor's record that are still loaded, and those of the
// files. Where another program loaded a module, or the recorded file ended with its container, the
// file of the same build counts.
func stillLoaded(k Kernel, recorded, files []status.Module) (modules []status.Module) {
	recorded = slices.DeleteFunc(slices.Clone(recorded), func(m status.Module) bool {
		_, gone := os.Stat(m.File)
		_, other := status.Named(files, m.Name)
		return gone != nil && other
	})
	for _, m := range slices.Concat(recorded, files) {
		live, err := k.Module(m.Name)
		_, have := status.Named(modules, m.Name)
		if have || err != nil || live.SrcVersion != m.SrcVersion {
			continue
		}
		modules = append(modules, m)
	}
	return modules
}

// foreign reports whether a loaded module belongs to another driver. The nvidia-uvm of 470 and of
// older drivers has no version.
func foreign(m kmod.Module, driver string) bool {
	return m.Version != driver && (m.Version != "" || m.Name == "nvidia")
}
