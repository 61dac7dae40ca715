package node

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// surveyHost is the rest of the survey with config.ModulesHost: the node's own system loads the
// modules, and the loaded driver stays as it is. What is not the driver of this image, or half of
// one, preflight refuses.
func (n *Node) surveyHost(facts Facts) (Facts, error) {
	facts.Loaded = verdict{Adopted: true}
	facts.Want = Want{Driver: n.Info.Driver, Release: n.Release}
	text, _ := hostUnfit(n.Kernel, n.Info.Driver)
	if text != "" {
		return facts, nil
	}
	flavour, err := n.Kernel.Flavour()
	if err != nil {
		return facts, err
	}
	facts.Want.Flavour = flavour
	facts.Want.Modules, _, err = loadedOf(n.Kernel, driverinfo.Modules())
	if err != nil {
		return facts, err
	}
	for _, name := range facts.Want.Modules {
		module := kmod.ModuleName(name)
		shown, err := n.Kernel.Params(module)
		if err != nil { // nothing is shown of it
			continue
		}
		differing := kmod.Differences(facts.Options.For(module), shown)
		if len(differing) > 0 {
			n.warn("%s: the system of this node loaded it with other parameters: %s; "+
				"set them there (/etc/modprobe.d)", module, strings.Join(differing, ", "))
		}
	}
	companions, lacking, err := loadedOf(n.Kernel, modules.Wanted(n.cfg.GDS, n.cfg.GDRCopy))
	if err != nil {
		return facts, err
	}
	facts.Want.Companions = companions
	for _, name := range lacking {
		n.warn("%s is asked for, and the system of this node, which brings the modules, "+
			"has not loaded it", name)
	}
	n.Log.Info("the system of this node brings the modules", "driver", facts.Want.Driver,
		"flavour", flavour, "kernel", n.Release, "modules", facts.Want.Modules)
	return facts, nil
}

// loadedOf divides modules into those that are loaded and the others.
func loadedOf(k Kernel, names []string) (loaded, others []string, err error) {
	for _, name := range names {
		there, err := isLoaded(k, kmod.ModuleName(name))
		if err != nil {
			return nil, nil, err
		}
		if there {
			loaded = append(loaded, name)
		} else {
			others = append(others, name)
		}
	}
	return loaded, others, nil
}

// hostUnfit says why the driver that the node's system loaded cannot be served from this image, and
// what to do; "" if it can.
func hostUnfit(k Kernel, driver string) (text, fix string) {
	for _, name := range driverinfo.RequiredModules() {
		live, err := k.Module(kmod.ModuleName(name))
		if err != nil {
			text = fmt.Sprintf("the node's own system is to bring the modules (--modules=host), "+
				"and %s is not loaded: %v", name, err)
			return text, "Load it there (modprobe " + name + "), or leave --modules out."
		}
		if foreign(live, driver) {
			text = fmt.Sprintf("the node's own system loaded %s of driver %s, "+
				"this image has driver %s", name, live.Version, driver)
			return text, "Use the image of driver " + live.Version + "."
		}
	}
	return "", ""
}

// loadedByHost returns the record of the modules that the node's system loaded.
func loadedByHost(k Kernel, w Want) (all []status.Module) {
	for _, name := range w.Modules {
		live, err := k.Module(kmod.ModuleName(name))
		if err != nil {
			continue
		}
		all = append(all, status.Module{Name: live.Name, SrcVersion: live.SrcVersion})
	}
	return all
}
