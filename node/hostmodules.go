package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// surveyHost is the rest of the survey with config.ModulesHost: the node's own system loads the
// modules, and the loaded driver stays as it is. What is not the driver of this image, or half of
// one, preflight refuses.
func (n *Node) surveyHost() (err error) {
	n.found = nil
	n.source = ""
	n.loaded = verdict{Adopted: true}
	n.want = Want{Driver: n.Info.Driver, Release: n.Release}
	if text, _ := n.hostUnfit(); text != "" {
		return nil
	}
	n.want.Flavour, err = n.Kernel.Flavour()
	if err != nil {
		return err
	}
	loaded := func(name string) bool {
		there, lerr := n.isLoaded(underscores(name))
		err = errors.Join(err, lerr)
		return there
	}
	for _, name := range driverinfo.Modules() {
		if loaded(name) {
			n.want.Modules = append(n.want.Modules, name)
			n.compareParams(underscores(name))
		}
	}
	for _, name := range modules.Wanted(n.cfg.GDS, n.cfg.GDRCopy) {
		if loaded(name) {
			n.want.Companions = append(n.want.Companions, name)
		} else if err == nil {
			n.warn("%s is asked for, and the system of this node, which brings the modules, has not loaded it", name)
		}
	}
	n.log.Info(
		"the system of this node brings the modules",
		"driver",
		n.want.Driver,
		"flavour",
		n.want.Flavour,
		"kernel",
		n.Release,
		"modules",
		n.want.Modules,
	)
	return err
}

// hostUnfit says why the driver that the node's system loaded cannot be served from this image, and
// what to do; "" if it can.
func (n *Node) hostUnfit() (text, fix string) {
	for _, name := range driverinfo.RequiredModules() {
		live, err := n.Kernel.Module(underscores(name))
		switch {
		case err != nil:
			return fmt.Sprintf(
					"the node's own system is to bring the modules (--modules=host), and %s is not loaded: %v",
					name,
					err,
				),
				"Load it there (modprobe " + name + "), or leave --modules out."
		case foreign(live, n.Info.Driver):
			return fmt.Sprintf(
					"the node's own system loaded %s of driver %s, this image has driver %s",
					name,
					live.Version,
					n.Info.Driver,
				),
				"Use the image of driver " + live.Version + "."
		}
	}
	return "", ""
}

// compareParams warns of parameters that are configured here and that the system's module does not
// have.
func (n *Node) compareParams(name string) {
	shown, err := n.Kernel.Params(name)
	if err != nil { // nothing is shown of it
		return
	}
	if diff := kmod.Differences(n.options.For(name), shown); len(diff) > 0 {
		n.warn(
			"%s: the system of this node loaded it with other parameters: %s; set them there (/etc/modprobe.d)",
			name,
			strings.Join(diff, ", "),
		)
	}
}

// hostModules returns the record of the modules that the node's system loaded.
func (n *Node) hostModules() (all []status.Module) {
	for _, name := range n.want.Modules {
		if live, err := n.Kernel.Module(underscores(name)); err == nil {
			all = append(all, status.Module{Name: live.Name, SrcVersion: live.SrcVersion})
		}
	}
	return all
}

// byHost reports whether the node's system brings the modules.
func (n *Node) byHost() bool { return n.cfg.Modules == config.ModulesHost }
