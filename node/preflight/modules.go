package preflight

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
)

func checkModules(in *Input) Check {
	var bad, others []string
	named := func(m kmod.Module, names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return kmod.ModuleName(name) == m.Name })
	}
	for _, m := range in.Modules {
		ours := named(m, driverinfo.Modules())
		switch {
		case slices.Contains([]string{"nvidiafb", "rivafb", "nova_core", "nova_drm"}, m.Name): // they claim the same devices at boot
			bad = append(bad, m.Name)
		case ours && (m.State == "going" || m.State == "coming"):
			return block("Reboot the node: the kernel never finished with the module, and nothing else helps.",
				"module %s is stuck (%s)", m.Name, m.State)
		case !ours && !named(m, in.Companions) && (strings.HasPrefix(m.Name, "nvidia") || m.Name == "gdrdrv"):
			others = append(others, m.Name)
		}
	}
	if in.HostModules != nil && len(bad) == 0 {
		if text, fix := in.HostModules(); text != "" {
			return block(fix, "%s", text)
		}
	}
	driver, loaded := in.module("nvidia")
	stale := loaded && driver.Version != in.Info.Driver
	switch {
	case len(bad) > 0:
		list := strings.Join(bad, ", ")
		return block(fmt.Sprintf("Blacklist %s on the host (/etc/modprobe.d), make the initramfs anew and reboot.", list),
			"modules that claim NVIDIA's GPUs are loaded: %s", list)
	case (!loaded || stale) && in.forbidden() != "":
		return block("Take it out of the kernel's command line or the sysctl settings of the node, and reboot.",
			"a setting of this node forbids the driver's modules until the next boot: %s", in.forbidden())
	case stale && driver.Version != in.Previous && in.hostHasDriver():
		return block("Remove the driver's packages from the host, or keep the driver container off this node: label it nvidia.com/gpu.deploy.driver=pre-installed.",
			"driver %s is loaded, and the host has a driver of its own", driver.Version)
	case stale:
		return warn("Stop what uses the GPUs of this node: the driver is replaced once it is free.",
			"driver %s is loaded and will be replaced by %s", driver.Version, in.Info.Driver)
	case len(others) > 0:
		return warn("Stop what loaded them before the driver is to be unloaded.",
			"modules of others stand on the driver: %s", strings.Join(others, ", "))
	case loaded:
		return ok("driver %s is loaded", driver.Version)
	default:
		return ok("no other driver is loaded")
	}
}

// forbidden returns the setting with which the kernel refuses one of the modules that would be
// loaded, "" for none.
func (in *Input) forbidden() (setting string) {
	for _, m := range append([]Loading{{Name: "nvidia"}}, in.Load...) {
		setting = cmp.Or(setting, kmod.System{Proc: in.Proc}.Forbidden(m.Name))
	}
	return setting
}

// smiDirs returns the folders in which the validator and the driver manager of the GPU Operator
// look for a driver of the host.
func smiDirs() []string {
	return []string{"usr/bin", "usr/sbin", "bin", "sbin", "usr/lib/wsl/lib", "opt/bin"}
}

// hostFile returns the host's path of the first file of that name in some folders.
func hostFile(root string, dirs []string, name string) string {
	for _, dir := range dirs {
		file, err := kmod.Within(root, path.Join(dir, name))
		if err != nil || !exists(file) {
			continue
		}
		return "/" + path.Join(dir, name)
	}
	return ""
}

// hostHasDriver says whether a driver is installed on the host itself: its programs, or modules for
// the running kernel.
func (in *Input) hostHasDriver() bool {
	root, err := in.host()
	if err != nil {
		return false
	}
	return hostFile(root, smiDirs(), "nvidia-smi") != "" || in.hostModule(root) != ""
}

// hostModule returns the nvidia module in the host's module tree, which udev would load at boot.
func (in *Input) hostModule(root string) string {
	for _, tree := range in.treesBelow(root) {
		if file := inIndex(path.Join(tree, "modules.dep"), "nvidia", "nvidia_current"); file != "" {
			return path.Join(strings.TrimPrefix(tree, root), file)
		}
	}
	return ""
}

// checkHostDriver finds a driver on the host. The GPU Operator takes nvidia-smi on the host's PATH
// for a driver of the host and then ignores ours.
func checkHostDriver(in *Input) Check {
	if in.HostModules != nil {
		return skip("the node's own system brings the modules")
	}
	root, err := in.host()
	if err != nil {
		return skip("whether the host has a driver of its own is not known: %v", err)
	}
	remove := "Remove the driver's packages from the host (nvidia-driver-*, nvidia-utils-*, libnvidia-*), or keep the driver container off this node: label it nvidia.com/gpu.deploy.driver=pre-installed."
	if smi := hostFile(root, smiDirs(), "nvidia-smi"); smi != "" {
		return warn(
			remove,
			"the host has %s: once a driver is loaded, the GPU Operator takes it for the host's own",
			smi,
		)
	}
	if module := in.hostModule(root); module != "" {
		return warn(remove, "the host has modules of its own, which it loads at boot: %s", module)
	}
	dirs := []string{
		"usr/lib/x86_64-linux-gnu",
		"usr/lib/aarch64-linux-gnu",
		"usr/lib64",
		"lib/x86_64-linux-gnu",
		"lib64",
	}
	for _, name := range []string{"libcuda.so.1", "libnvidia-ml.so.1"} {
		if lib := hostFile(root, dirs, name); lib != "" {
			return warn(remove, "the host has %s of another driver", lib)
		}
	}
	return ok("the host has no driver of its own")
}
