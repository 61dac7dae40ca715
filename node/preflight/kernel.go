package preflight

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/osrelease"
)

// taintDied is the bit of kernel.tainted for an Oops or a BUG since boot.
const taintDied = 1 << 7

func checkKernel(in *Input) Check {
	if _, _, ok := driverinfo.Series(in.Release); !ok {
		return block(
			"Mount the host's /proc (a container has it by default), and see what `uname -r` says.",
			"the release of the running kernel is not known (%q)",
			in.Release,
		)
	}
	tainted, err := strconv.ParseUint(value(in.Proc, "sys/kernel/tainted"), 10, 64)
	if err == nil && tainted&taintDied != 0 {
		return warn(
			"Reboot the node before the driver is loaded or unloaded; see `dmesg` for what happened.",
			"kernel %s has had an Oops since it booted",
			in.Release,
		)
	}
	realtime := value(in.Sys, "kernel/realtime") == "1" ||
		distros.ParseRelease(in.Release).Kind() == distros.RealtimeKernel
	if realtime && !in.HaveModules {
		return warn(
			"Use a kernel without PREEMPT_RT: NVIDIA does not support it, and a compile stops there.",
			"kernel %s is a real-time kernel",
			in.Release,
		)
	}
	return ok("%s", in.Release)
}

// checkSystem compares the host's system with the image's. Modules are compiled with the image's
// compiler against the host's kernel, which works only between related systems.
func checkSystem(in *Input) Check {
	root, err := in.host()
	if err != nil {
		return skip("which system the host runs is not known: %v", err)
	}
	id, version := osrelease.Parse(hostValue(root, "etc/os-release"))
	id = printable(id)
	version = printable(version)
	switch {
	case id == "" || in.Info.OS == "":
		return skip("the host has no /etc/os-release, or the image does not name its system")
	case madeFor(in.Info.OS, id, version):
		return ok("%s", in.Info.OS)
	default:
		return warn(
			"Use the image of this driver that was made for "+osrelease.Tag(
				id,
				version,
			)+", where there is one.",
			"the host runs %s, the image is made for %s",
			id+version,
			in.Info.OS,
		)
	}
}

// madeFor says whether a system's os-release is that of the image's system: "rocky", "9.4" is
// rocky9.
func madeFor(system, id, version string) bool {
	d, err := distros.Lookup(system)
	return err == nil && d.Matches(id, version) || id+version == system
}

// checkKernelRule asks the rules about kernels on which the driver does not compile or work. A rule
// that the image's builder has overridden only warns; the others count all the same.
func checkKernelRule(in *Input) Check {
	running := RunningKernel(in.Proc, in.Release)
	limit := in.Info.CheckKernel(in.Release)
	broken := in.Info.CheckFlavour(running, in.Flavour)
	all := in.Info
	all.Overridden = nil
	rule := all.CheckKernel(in.Release)
	flavourRule := all.CheckFlavour(running, in.Flavour)
	if rule == nil && flavourRule != nil {
		rule = flavourRule
	}
	switch {
	case rule == nil:
		return ok("driver %s compiles on kernel %s", in.Info.Driver, in.Release)
	case in.HaveModules:
		return ok("modules for kernel %s are at hand", in.Release)
	case !in.CanCompile:
		return skip("nothing can be compiled")
	case limit != nil:
		return block(
			"Use a driver for this kernel (driver-build kernels --os SYSTEM lists which drivers compile on which) or another kernel; --skip-preflight kernel-limit tries it all the same.",
			"%v",
			limit,
		)
	case broken != nil && broken.Certain:
		return block(
			"Use a newer driver, an older kernel or the other flavour of the modules (KERNEL_MODULE_TYPE); --skip-preflight kernel-limit tries it all the same.",
			"%v",
			broken,
		)
	case broken != nil:
		return warn(
			"If the compile fails, use a newer driver, an older kernel or the other flavour of the modules.",
			"%v",
			broken,
		)
	}
	return warn(
		"If the compile fails, use a newer driver or an older kernel.",
		"%v; the rule was overridden",
		rule,
	)
}

// RunningKernel finds out from which release of kernel.org a running kernel was made; proc is
// "/proc".
func RunningKernel(proc, release string) driverinfo.Kernel {
	return driverinfo.Kernel{
		Release: release, Version: driverinfo.RunningRelease(release, value(proc, "version"), value(proc, "version_signature")),
	}
}

// toolkitCompiles reports whether a Driver Toolkit container is to compile: then headers and
// compiler are there.
func (in *Input) toolkitCompiles() bool { return in.Toolkit != "" && in.ToolkitMissing == "" }

// checkHeaders says where the headers come from. Whether a toolkit has those of the node's kernel,
// only its container can see.
func checkHeaders(in *Input) Check {
	toolkit := ""
	if in.ToolkitMissing != "" {
		toolkit = fmt.Sprintf(
			" For a Driver Toolkit, import its image (oc adm release info --image-for=driver-toolkit): the cluster has no image stream tag %s in namespace openshift.",
			in.ToolkitMissing,
		)
	}
	switch {
	case in.HaveModules:
		return skip("nothing has to be compiled")
	case !in.CanCompile:
		return skip("nothing can be compiled")
	case in.toolkitCompiles() && exists(in.Toolkit):
		return ok("the Driver Toolkit container compiles for kernel %s (%s)", in.Release, in.Toolkit)
	case in.toolkitCompiles():
		return warn(
			"Mount one emptyDir there in both containers of the pod.",
			"%s is not there: headers come from the package repositories",
			in.Toolkit,
		)
	case in.HeadersErr == nil:
		return ok("%s", in.Headers)
	case in.FetchHeaders:
		return warn(
			"To be independent of the network, install the headers of the kernel on the host and run with hostPID, or mount its /usr at /host/usr."+toolkit,
			"the headers of kernel %s are not on this node and will be fetched from the package repository",
			in.Release,
		)
	default:
		return block(
			"Install linux-headers-"+in.Release+" on the host and run with hostPID or mount its /usr at /host/usr, or allow the package repository."+toolkit,
			"%v",
			in.HeadersErr,
		)
	}
}

func checkCompiler(in *Input) Check {
	switch {
	case in.HaveModules || !in.CanCompile:
		return skip("nothing has to be compiled")
	case in.toolkitCompiles():
		return skip("the Driver Toolkit container has it")
	case in.CompilerErr != nil && in.FetchHeaders && in.HeadersErr != nil:
		return skip("the compiler is chosen when the headers are there")
	case in.CompilerErr != nil:
		return block(
			"Use an image that holds a compiler (driver-build puts gcc into each), or one with modules for this kernel.",
			"%v",
			in.CompilerErr,
		)
	case in.WantedGCC != "" && in.WantedGCC != in.Compiler:
		return warn(
			"Use the image for the host's system, which has the kernel's compiler.",
			"the kernel was made with %s, the modules will be compiled with %s",
			in.WantedGCC,
			in.Compiler,
		)
	default:
		return ok("%s", in.Compiler)
	}
}

func checkDisk(in *Input) Check {
	var compile, need, spare Space
	if !in.HaveModules && in.CanCompile {
		compile = compileSpace
	}
	if in.Staging != nil {
		need, spare = in.Staging()
	}
	need.Bytes += compile.Bytes
	need.Inodes += compile.Inodes
	if need == (Space{}) || in.StateDir == "" {
		return skip("nothing has to be stored")
	}
	if what := notFolder(in.StateDir, "", "roots", "modules"); what != "" {
		return block("Remove it on the node (rm).", "%s", what)
	}
	dir := in.StateDir
	for !exists(dir) && dir != "/" && dir != "." {
		dir = filepath.Dir(filepath.Clean(dir)) // the folder will be created
	}
	free, err := in.Free(dir)
	switch {
	case err != nil:
		return skip("free space of %s is not known: %v", in.StateDir, err)
	case free.Bytes < compile.Bytes:
		return block(
			"Free space there, or mount a larger file system.",
			"%s are free in %s, %s are needed",
			size(free.Bytes),
			in.StateDir,
			size(compile.Bytes),
		)
	case free.Bytes+spare.Bytes < need.Bytes:
		return block(
			"Free space there, or mount a larger file system, or no folder: then the image itself is served.",
			"%s are free in %s, and %s in driver roots that nobody mounts; copying the driver root there takes %s",
			size(free.Bytes),
			in.StateDir,
			size(spare.Bytes),
			size(need.Bytes),
		)
	case free.Inodes < need.Inodes && free.Inodes+spare.Inodes < need.Inodes:
		return block(
			"Remove files there (df -i), or mount a file system with more inodes, or no folder: then the image itself is served.",
			"%d inodes are free in %s, and %d in driver roots that nobody mounts; the driver root takes %d",
			free.Inodes,
			in.StateDir,
			spare.Inodes,
			need.Inodes,
		)
	}
	return ok("%s free in %s", size(free.Bytes), in.StateDir)
}

// size formats a number of bytes for people.
func size(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
