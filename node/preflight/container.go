package preflight

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/node/mounttable"
)

func checkPrivileges(in *Input) Check {
	const privileged = "Run the container privileged (securityContext.privileged: true)."
	effective, found := in.effective()
	if !found {
		return skip(
			"the capabilities of this process are not known: %s/self/status cannot be read",
			in.Proc,
		)
	}
	var missing []string
	for name, bit := range map[string]uint{"CAP_SYS_MODULE": unix.CAP_SYS_MODULE, "CAP_MKNOD": unix.CAP_MKNOD, "CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN} {
		if effective&(1<<bit) == 0 {
			missing = append(missing, name)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		return block(privileged, "the container lacks %s", strings.Join(missing, ", "))
	}
	// Only the mount itself counts: the file system below it may be read-only in a privileged pod,
	// too, but the start changes that.
	if m, err := in.mountOf("/sys"); err == nil && m.ReadOnly {
		return block(
			privileged,
			"/sys is mounted read-only: the kernel cannot be told where the firmware is",
		)
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

// checkHostPID checks that the host's processes are visible, without which the holders of a GPU
// cannot be named.
func checkHostPID(in *Input) Check {
	_, err := in.host()
	switch {
	case err == nil:
		return ok("the host's processes are in sight")
	case in.hostPID():
		return ok("not in a container")
	}
	return warn("Set hostPID: true in the pod.", "the host's processes are out of sight: "+
		"who uses a GPU cannot be found out when the driver is to be stopped")
}

// hostPID says whether process 1 is the host's, although its root is our own: the kernel's first PID
// namespace has this number (PROC_PID_INIT_INO).
func (in *Input) hostPID() bool {
	namespace, err := os.Readlink(filepath.Join(in.Proc, "self/ns/pid"))
	return err == nil && namespace == "pid:[4026531836]"
}

// checkRunShared checks the mount propagation of RunDir. The driver root is a mount below RunDir,
// and without propagation only this container sees it.
func checkRunShared(in *Input) Check {
	m, err := in.mountOf(in.RunDir)
	if what := notFolder(in.RunDir, "driver", "validations"); what != "" {
		return block(
			"Remove it on the node (rm), or find out who made it: the driver container makes folders there.",
			"%s",
			what,
		)
	}
	switch {
	case err != nil:
		return skip("mounts are not known: %s/self/mountinfo cannot be read", in.Proc)
	case m.ReadOnly || strings.HasPrefix(m.Options+",", "ro,"):
		return block("Mount the host's "+in.RunDir+" writable.", "%s is read-only", in.RunDir)
	case m.Shared:
		return ok("mounts below %s are seen by the host", in.RunDir)
	case in.sameMounts():
		return ok("this process shares the mounts of process 1")
	default:
		return block(
			"Mount the host's "+in.RunDir+" with mountPropagation: Bidirectional; on the host, `mount --make-rshared /` if its mounts are private.",
			"mounts below %s are seen by nobody else: it is not a shared mount",
			in.RunDir,
		)
	}
}

// sameMounts says whether the host's process 1 has our mount namespace. Then no propagation is
// needed.
func (in *Input) sameMounts() bool {
	if _, err := in.host(); err != nil && !in.hostPID() {
		return false // process 1 is our own
	}
	ours, err := os.Readlink(filepath.Join(in.Proc, "self/ns/mnt"))
	if err != nil {
		return false
	}
	theirs, err := os.Readlink(filepath.Join(in.Proc, "1/ns/mnt"))
	return err == nil && ours == theirs
}

// mountOf finds the mount that contains a path, which may have links.
func (in *Input) mountOf(path string) (mounttable.Mount, error) {
	path, err := mounttable.RealPath(path)
	if err != nil {
		return mounttable.Mount{}, err
	}
	return mounttable.ContainingIn(filepath.Join(in.Proc, "self/mountinfo"), path)
}
