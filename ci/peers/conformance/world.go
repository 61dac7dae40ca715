package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// driverRoot is the path of the root in the world, as on a node.
const driverRoot = "/run/nvidia/driver"

// standardNodes are the character devices that a container runtime expects on its machine.
var standardNodes = []struct {
	name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

// world makes the world in which the programs run and enters it for good: the calling process must be the
// first one of a mount and pid namespace that it does not share. consumer is a Debian system with the
// programs, which is not written to; root is the driver root. The driver's device nodes are copied from /dev.
func world(consumer, root string) error {
	at := func(name string) string { return filepath.Join(consumer, name) }
	// Make mounts private first: from here on no mount is visible in another namespace.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	// The root needs a mount of its own, because runc's pivot_root fails if the process's root is not a mount.
	if err := mount(consumer, consumer, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	for _, m := range []struct{ name, data string }{{"dev", "mode=755"}, {"run", "mode=755"}, {"tmp", "mode=1777"}} {
		if err := mount("tmpfs", at(m.name), "tmpfs", 0, m.data); err != nil {
			return err
		}
	}
	if err := mount("proc", at("proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount("/sys", at("sys"), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	// Mount one cgroup hierarchy, whatever the machine has, so that runc behaves alike everywhere. Where it
	// cannot be mounted, runc uses what exists.
	err := mount("cgroup2", at("sys/fs/cgroup"), "cgroup2", 0, "")
	if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENODEV) {
		return err
	}
	if err := nodes(at("dev"), "/dev"); err != nil {
		return err
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

// nodes makes the standard device nodes in the folder to, and copies of the driver's nodes in the folder
// from.
func nodes(to, from string) error {
	node := func(name string, rdev uint64) error {
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(rdev)); err != nil {
			return fmt.Errorf("make device node %s: %w", path, err)
		}
		return os.Chmod(path, 0o666) // independent of the umask
	}
	for _, n := range standardNodes {
		if err := node(n.name, unix.Mkdev(n.major, n.minor)); err != nil {
			return err
		}
	}
	for _, pattern := range []string{"nvidia*", "nvidia-caps/*"} {
		names, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return fmt.Errorf("list the device nodes in %s: %w", from, err)
		}
		for _, n := range names {
			var st unix.Stat_t
			if err := unix.Lstat(n, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
				continue // a folder, or removed meanwhile
			}
			if err := node(strings.TrimPrefix(n, filepath.Clean(from)+"/"), st.Rdev); err != nil {
				return err
			}
		}
	}
	for link, target := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+target, filepath.Join(to, link)); err != nil {
			return err
		}
	}
	return os.Mkdir(filepath.Join(to, "shm"), 0o1777)
}
