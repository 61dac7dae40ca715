package preflight

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// processCapabilities are needed to see the open files of other users' processes. A privileged container has
// them.
var processCapabilities = []capability{{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"}, {unix.CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"}}

// checkUnprivileged checks that the path of the firmware can be set. An unprivileged container sees the file
// for it read-only, and AppArmor's profile for containers denies it.
func checkUnprivileged(in *Input, effective uint64) result {
	const dir = "module/firmware_class/parameters"
	f, err := os.OpenFile(filepath.Join(in.Sys, dir, "path"), os.O_WRONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a kernel without the parameter
	case errors.Is(err, fs.ErrPermission):
		return block("Where AppArmor is on, give the container the profile Unconfined (securityContext.appArmorProfile).",
			"the kernel cannot be told where the firmware is: %v", err)
	case err != nil:
		return block("Mount the host's /sys/"+dir+" (hostPath) at the same path, writable.", "the kernel cannot be told where the firmware is: %v", err)
	default:
		_ = f.Close() // nothing was written
	}
	if missing := lacking(effective, processCapabilities); missing != "" {
		return warn("Add it to securityContext.capabilities.add of the container.",
			"the container lacks %s: who uses a GPU cannot be found out when the driver is to be stopped, not for all users", missing)
	}
	return ok("the container has the capabilities that a linked driver root takes")
}

// checkRunLinked checks the folder of the link. Every process that sees the folder sees the link. An
// unprivileged container cannot remove a mount that a privileged container left in place of the link.
func checkRunLinked(in *Input) result {
	target := filepath.Join(in.RunDir, "driver")
	if _, _, at := in.mount(target); at == target {
		return block("Stop the privileged driver container while no GPU is in use, or run `umount -R "+target+"` on the node.",
			"a driver root is mounted at %s, where this container is to put a link and may not unmount", target)
	}
	host, err := in.host()
	if err != nil {
		return ok("the driver root is a link in %s", in.RunDir)
	}
	ours, err := os.Stat(in.RunDir)
	if err != nil {
		return block("Mount the host's "+in.RunDir+" (hostPath) at the same path.", "%v", err)
	}
	if theirs, err := os.Stat(filepath.Join(host, in.RunDir)); err != nil || !os.SameFile(ours, theirs) {
		return block("Mount the host's "+in.RunDir+" (hostPath) at the same path.", "%s is not the host's: nobody would see the driver root", in.RunDir)
	}
	return ok("the driver root is a link in %s, which is the host's", in.RunDir)
}
