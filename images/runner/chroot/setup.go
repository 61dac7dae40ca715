//go:build linux

package chroot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// devices are all devices that a step gets in /dev. A compiler needs no others.
var devices = []string{"null", "zero", "full", "random", "urandom"}

// setUp turns the unpacked folder into the root of this process and removes its privileges. It runs
// in fresh namespaces and changes nothing on the machine.
func setUp(c config) error {
	// When the machine runs out of memory, the kernel kills the step before the program that can
	// report it.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0); err != nil {
		return err
	}
	for _, s := range []struct {
		what string
		do   func() error
	}{
		{"name the machine", func() error { return unix.Sethostname([]byte("localhost")) }}, // the same on every machine
		{"start the loopback interface", loopback},
		{"keep mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount the root", func() error { return unix.Mount(c.Root, c.Root, "", unix.MS_BIND, "") }},
		{"mount /tmp", func() error {
			return unix.Mount("tmpfs", filepath.Join(c.Root, "tmp"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
		}},
		{"make /dev", func() error { return makeDev(filepath.Join(c.Root, "dev")) }},
		// Read-only: user 0 owns the kernel's settings and may write them without any capability.
		{"mount /proc", func() error {
			return unix.Mount("proc", filepath.Join(c.Root, "proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
		}},
		{"change the root", func() error { return pivot(c.Root) }},
		{"limit resources", limit},
		{"drop privileges", dropPrivileges},
	} {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// loopback starts lo, the only interface of the new network namespace, as container runtimes do:
// programs that connect to themselves work, nothing else is reachable.
func loopback() (err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

func makeDev(dev string) error {
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=1m"); err != nil {
		return err
	}
	for _, name := range devices {
		at := filepath.Join(dev, name)
		if err := os.WriteFile(at, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	for name, to := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink("/proc/self/"+to, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes a folder, which is a mount, the root of this mount namespace and detaches the old
// root with all its mounts.
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("%w (it cannot work when the machine's own root is an initramfs)", err)
	}
	// The old root now covers the new one: the unmount takes the upper of the two.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// maxFiles bounds the open files of a process.
const maxFiles = 65536

// limit sets the resource limits of this process, which the command inherits. It sets no limit of
// processes, because that one counts all processes of a user on the machine, and does not hold for
// root.
func limit() error {
	for which, most := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: maxFiles} {
		var now unix.Rlimit
		if err := unix.Getrlimit(which, &now); err != nil {
			return err
		}
		most = min(most, now.Max)
		if err := unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("resource %d: %w", which, err)
		}
	}
	return nil
}

// dropPrivileges removes every capability from this thread for good, and so from the command that
// the thread starts.
func dropPrivileges() error {
	// No process of the step, which may have the same user, can inspect this one, which has files
	// of the machine open.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for c := range uintptr(64) {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel knows no more capabilities
		}
		if err != nil {
			return fmt.Errorf("capability %d: %w", c, err)
		}
	}
	// Old kernels have no ambient set; newer ones empty it together with the permitted set.
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&hdr, &none[0])
}
