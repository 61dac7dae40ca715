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

// checkDependencies looks for the kernel's own modules that nvidia.ko depends on. A kernel may be
// built without them; then the driver is compiled without them, too.
func checkDependencies(in *Input) Check {
	trees := in.moduleTrees()
	var missing []string
	found := []string{}
	for _, name := range []string{"i2c_core", "ipmi_msghandler"} {
		switch in.presence(name, trees) {
		case present:
			found = append(found, name+" is there")
		case loadable:
			found = append(found, name+" can be loaded")
		case absent:
			missing = append(missing, name)
		case unknown:
			return warn(
				"Mount the host's /lib/modules into the container (read-only).",
				"module %s is not loaded, and there is no /lib/modules/%s to load it from",
				name,
				in.Release,
			)
		}
	}
	if len(missing) > 0 {
		return warn(
			"If the driver fails to load with unknown symbols, install the kernel's complete set of modules on the host"+in.modulePackages()+".",
			"the kernel has no %s",
			strings.Join(missing, ", "),
		)
	}
	return ok("%s", strings.Join(found, ", "))
}

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
	roots := []string{in.Root}
	if host, err := in.host(); err == nil {
		roots = append(roots, host)
	}
	return in.treesBelow(roots...)
}

func (in *Input) treesBelow(roots ...string) (dirs []string) {
	for _, root := range roots {
		for _, dir := range []string{"lib/modules", "usr/lib/modules"} {
			if tree, err := kmod.Within(root, path.Join(dir, in.Release)); err == nil &&
				exists(tree, "modules.dep") &&
				!slices.Contains(dirs, tree) {
				dirs = append(dirs, tree)
			}
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

// checkRDMA checks what nvidia-peermem needs: it depends on ib_core, and is useful only with a
// network card of NVIDIA (Mellanox).
func checkRDMA(in *Input) Check {
	if !in.RDMA {
		return skip("GPUDirect RDMA is not asked for")
	}
	cards, _ := filepath.Glob(filepath.Join(in.Sys, "bus/pci/devices/*/vendor")) //nolint:errcheck // the pattern is good
	switch {
	case !slices.ContainsFunc(cards, func(file string) bool { return value(file) == "0x15b3" }):
		return warn("Switch GPUDirect RDMA off for nodes without such a card.", "there is no network card for RDMA (15b3) on the PCI bus: nvidia-peermem will not be loaded")
	case in.presence("ib_core", in.moduleTrees()) < loadable:
		return warn("Install the RDMA drivers on the host or run their container (DOCA-OFED); nvidia-peermem is loaded once they are there.",
			"the RDMA core (ib_core) is neither loaded nor to be found")
	default:
		return ok("RDMA core and network card are there")
	}
}
