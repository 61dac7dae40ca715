package preflight

import (
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

// capabilities are those that loading a driver needs.
var capabilities = []capability{{unix.CAP_SYS_MODULE, "CAP_SYS_MODULE"}, {unix.CAP_MKNOD, "CAP_MKNOD"}, {unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}}

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
	if missing := lacking(effective, capabilities); missing != "" {
		return block(privileged, "the container lacks %s", missing)
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
	if what := notFolder(in.RunDir, "driver", "validations"); what != "" {
		return block("Remove it on the node (rm), or find out who made it: the driver container makes folders there.", "%s", what)
	}
	switch {
	case !found:
		return skip("mounts are not known: %s/self/mountinfo cannot be read", in.Proc)
	case readOnly(opts):
		return block("Mount the host's "+in.RunDir+" writable.", "%s is read-only", in.RunDir)
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
	text, err := bounded.Text(filepath.Join(in.Proc, "self/mountinfo"), maxIndex)
	if err != nil {
		return "", "", false
	}
	at := ""
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
	return fstype, opts, at != ""
}

func readOnly(opts string) bool {
	for field := range strings.FieldsSeq(opts) {
		if field == "ro" || strings.HasPrefix(field, "ro,") {
			return true
		}
	}
	return false
}
