package preflight

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
)

// capability is a capability of Linux.
type capability struct {
	bit  uint
	name string
}

// capabilities returns the capabilities that loading a driver needs. A driver root that is served by a link
// needs no mounts.
func (in *Input) capabilities() []capability {
	need := []capability{{unix.CAP_SYS_MODULE, "CAP_SYS_MODULE"}, {unix.CAP_MKNOD, "CAP_MKNOD"}}
	if !in.Linked {
		need = append(need, capability{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"})
	}
	return need
}

func lacking(effective uint64, need []capability) string {
	var missing []string
	for _, c := range need {
		if effective&(1<<c.bit) == 0 {
			missing = append(missing, c.name)
		}
	}
	return strings.Join(missing, ", ")
}

func checkPrivileges(in *Input) result {
	const privileged = "Run the container privileged (securityContext.privileged: true)."
	effective, found := in.effective()
	if !found {
		return skip("the capabilities of this process are not known: %s/self/status cannot be read", in.Proc)
	}
	fix := privileged
	if in.Linked {
		fix = "Add it to securityContext.capabilities.add of the container."
	}
	if missing := lacking(effective, in.capabilities()); missing != "" {
		return block(fix, "the container lacks %s", missing)
	}
	if in.Linked {
		return checkUnprivileged(in, effective)
	}
	// Only the mount itself counts: the file system below it may be read-only in a privileged pod, too, but the
	// start changes that.
	if _, opts, found := in.mountOf("/sys"); found && readOnly(strings.Fields(opts)[0]) {
		return block(privileged, "/sys is mounted read-only: the kernel cannot be told where the firmware is")
	}
	return ok("the container is privileged")
}

func (in *Input) effective() (bits uint64, found bool) {
	for line := range strings.Lines(value(in.Proc, "self/status")) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return bits, err == nil
		}
	}
	return 0, false
}

// checkHostPID checks that the host's processes are visible, without which the holders of a GPU cannot be
// named.
func checkHostPID(in *Input) result {
	_, err := in.host()
	if err == nil {
		return ok("the host's processes are in sight")
	}
	if in.bare() {
		return ok("not in a container")
	}
	if in.Linked && errors.Is(err, fs.ErrPermission) {
		return warn("Add CAP_SYS_PTRACE to the container's capabilities, and where AppArmor is on, give it the profile Unconfined.",
			"the host's processes may not be looked at: who uses a GPU cannot be found out when the driver is to be stopped")
	}
	return warn("Set hostPID: true in the pod.", "the host's processes are out of sight: who uses a GPU cannot be found out when the driver is to be stopped")
}

// bare says whether the root is a disk and not that of a container: then process 1 is the host's, although
// the root is our own.
func (in *Input) bare() bool {
	fstype, _, found := in.mountOf("/")
	return found && fstype != "overlay"
}

// checkRunShared checks the mount propagation of RunDir. The driver root is a mount below RunDir, and without
// propagation only this container sees it.
func checkRunShared(in *Input) result {
	const bidirectional = "Mount the host's %s with mountPropagation: Bidirectional; on the host, `mount --make-rshared /` if its mounts are private."
	fix := strings.Replace(bidirectional, "%s", in.RunDir, 1)
	_, opts, found := in.mountOf(in.RunDir)
	switch {
	case !found:
		return skip("mounts are not known: %s/self/mountinfo cannot be read", in.Proc)
	case readOnly(opts):
		return block("Mount the host's "+in.RunDir+" writable.", "%s is read-only", in.RunDir)
	case in.Linked:
		return checkRunLinked(in)
	case strings.Contains(opts, " shared:"):
		return ok("mounts below %s are seen by the host", in.RunDir)
	case in.sameMounts():
		return ok("this process shares the mounts of process 1")
	default:
		return block(fix, "mounts below %s are seen by nobody else: it is not a shared mount", in.RunDir)
	}
}

// sameMounts says whether the host's process 1 has our mount namespace. Then no propagation is needed.
func (in *Input) sameMounts() bool {
	if _, err := in.host(); err != nil && !in.bare() {
		return false // process 1 is our own
	}
	ours, err := os.Readlink(filepath.Join(in.Proc, "self/ns/mnt"))
	if err != nil {
		return false
	}
	theirs, err := os.Readlink(filepath.Join(in.Proc, "1/ns/mnt"))
	return err == nil && ours == theirs
}

// mountOf finds the mount that contains a path: its file system type and its options, those of the mount and
// the optional fields of mountinfo, each with a space before it. The last line with the longest mount point
// counts, because that mount is on top.
func (in *Input) mountOf(path string) (fstype, opts string, found bool) {
	fstype, opts, at := in.mount(path)
	return fstype, opts, at != ""
}

// mount is mountOf with the mount point, "" when there is none.
func (in *Input) mount(path string) (fstype, opts, at string) {
	text, err := bounded.Text(filepath.Join(in.Proc, "self/mountinfo"), maxIndex)
	if err != nil {
		return "", "", ""
	}
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if len(fields) < 6 || len(rest) < 3 {
			continue
		}
		point := fields[4]
		if point != "/" && path != point && !strings.HasPrefix(path, point+"/") || len(point) < len(at) {
			continue
		}
		at, fstype = point, rest[0]
		opts = " " + strings.Join(fields[5:], " ")
		if strings.HasPrefix(rest[2], "ro,") || rest[2] == "ro" {
			opts += " ro"
		}
	}
	return fstype, opts, at
}

func readOnly(opts string) bool {
	for field := range strings.FieldsSeq(opts) {
		if field == "ro" || strings.HasPrefix(field, "ro,") {
			return true
		}
	}
	return false
}

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
