package conformance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// driverRoot is the path of the root in the world, as on a node.
const driverRoot = "/run/nvidia/driver"

// world makes the world in which the programs run and enters it for good: the calling process must
// be the first one of a mount and pid namespace that it does not share. consumer is a Debian system
// with the programs, which is not written to; root is the driver root. /dev is copied.
func world(consumer, root string) error {
	at := func(name string) string { return filepath.Join(consumer, name) }
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		// Make mounts private first: from here on no mount is visible in another namespace.
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		// The root needs a mount of its own, because runc's pivot_root fails if the process's root is
		// not a mount.
		{consumer, consumer, "", unix.MS_BIND, ""},
		{"tmpfs", at("dev"), "tmpfs", 0, "mode=755"},
		{"tmpfs", at("run"), "tmpfs", 0, "mode=755"},
		{"tmpfs", at("tmp"), "tmpfs", 0, "mode=1777"},
		{"proc", at("proc"), "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"/sys", at("sys"), "", unix.MS_BIND | unix.MS_REC, ""},
	} {
		err := mount(m.source, m.target, m.kind, m.flags, m.data)
		if err != nil {
			return err
		}
	}
	// Mount one cgroup hierarchy, whatever the machine has, so that runc behaves alike everywhere.
	// Where it cannot be mounted, runc uses what exists.
	err := mount("cgroup2", at("sys/fs/cgroup"), "cgroup2", 0, "")
	if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENODEV) {
		return err
	}
	if text, err := exec.Command("cp", "-a", "/dev/.", at("dev")).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the device nodes: %w: %s", err, text)
	}
	if err := os.MkdirAll(at(driverRoot), 0o755); err != nil {
		return fmt.Errorf("make the mount point of the driver root: %w", err)
	}
	if err := mount(root, at(driverRoot), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Chroot(consumer); err != nil {
		return fmt.Errorf("enter %s: %w", consumer, err)
	}
	return os.Chdir("/")
}
