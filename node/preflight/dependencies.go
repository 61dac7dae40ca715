package preflight

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/kmod"
)

// presence says whether the kernel has a module.
type presence int

const (
	absent  presence = iota
	unknown          // there is no module tree of the running kernel to look into
	loadable
	present // loaded or built in
)

// modulePackages names the packages of the host's system with those modules. When the system is
// unknown, it names those of Ubuntu as an example.
func (in *Input) modulePackages() string {
	unknown := fmt.Sprintf(" (Ubuntu: linux-modules-extra-%s)", in.Release)
	host, err := in.host()
	if err != nil {
		return unknown
	}
	d, err := osrelease.System(os.DirFS(host))
	if err != nil {
		return unknown
	}
	if packages := d.ModulePackages(in.Release); len(packages) > 0 {
		return fmt.Sprintf(" (%s: %s)", d.ID(), strings.Join(packages, ", "))
	}
	return ""
}

// moduleTrees returns the folders with the modules of the running kernel: the image's own (or a
// mount of the host's) and the host's.
func (in *Input) moduleTrees() []string {
	host, err := in.host()
	if err != nil {
		return in.treesBelow(in.Root)
	}
	return in.treesBelow(in.Root, host)
}

func (in *Input) treesBelow(roots ...string) (dirs []string) {
	for _, root := range roots {
		for _, dir := range []string{"lib/modules", "usr/lib/modules"} {
			tree, err := kmod.Within(root, path.Join(dir, in.Release))
			if err != nil || !exists(tree, "modules.dep") || slices.Contains(dirs, tree) {
				continue
			}
			dirs = append(dirs, tree)
		}
	}
	return dirs
}

func (in *Input) presence(name string, trees []string) presence {
	if _, loaded := in.module(name); loaded || exists(in.Sys, "module", name) {
		return present
	}
	for _, tree := range trees {
		if inIndex(filepath.Join(tree, "modules.builtin"), name) != "" {
			return present
		}
		if inIndex(filepath.Join(tree, "modules.dep"), name) != "" {
			return loadable
		}
	}
	if len(trees) == 0 {
		return unknown
	}
	return absent
}

// inIndex returns the first file in modules.dep or modules.builtin that is one of these modules; ""
// for none. A line of them is "kernel/drivers/i2c/i2c-core.ko.xz: ...".
func inIndex(index string, modules ...string) string {
	text, err := bounded.Text(index, maxIndex)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		base, _, _ := strings.Cut(path.Base(file), ".ko")
		if slices.Contains(modules, kmod.ModuleName(base)) {
			return file
		}
	}
	return ""
}
