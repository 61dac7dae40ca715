package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	newRoot  = "/newroot"
	labDir   = "/lab"        // on the guest's host: the agent, image disks
	bootList = "/boot/order" // names of the module files below /boot, in the order in which they load
	// diskWait bounds the wait for a disk to appear; drivers probe them in the background.
	diskWait = 20 * time.Second
)

// mount is one mount of a table.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return fmt.Errorf("mount point: %w", err)
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s (%s) on %s: %w", m.source, m.kind, m.target, err)
	}
	return nil
}

func mountAll(all ...mount) error {
	for _, m := range all {
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

// initMain is process 1: it makes a host out of the initramfs and then reaps processes until the agent's
// server ends.
func initMain() error {
	err := boot()
	if err == nil {
		err = supervise()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lab agent: %v\n", err)
	}
	unix.Sync()
	return errors.Join(err, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

// boot does what an initrd and systemd do. It mounts a root that is not the kernel's rootfs (on which
// pivot_root fails), /usr from a disk and the usual file systems, and makes mounts shared.
func boot() error {
	err := mountAll(
		mount{"proc", "/proc", "proc", 0, ""},
		mount{"sysfs", "/sys", "sysfs", 0, ""},
		mount{"devtmpfs", "/dev", "devtmpfs", 0, ""},
		mount{"tmpfs", newRoot, "tmpfs", 0, "mode=755"},
	)
	if err != nil {
		return err
	}
	if err := bootModules(); err != nil {
		return err
	}
	if err := hostTree(); err != nil {
		return err
	}
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the new root to /: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return hostMounts()
}

// bootModules inserts the modules that the disks and the port need.
func bootModules() error {
	order, err := os.ReadFile(bootList)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(order)) {
		if err := insert(filepath.Join("/boot", name)); err != nil {
			return err
		}
	}
	return nil
}

func insert(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("insert %s: %w", path, err)
	}
	return nil
}

// hostMounts mounts what systemd mounts.
func hostMounts() error {
	const secure = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err := mountAll(
		mount{"proc", "/proc", "proc", secure, ""},
		mount{"sysfs", "/sys", "sysfs", secure, ""},
		mount{"securityfs", "/sys/kernel/security", "securityfs", secure, ""},
		mount{"cgroup2", "/sys/fs/cgroup", "cgroup2", secure, ""},
		mount{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, "mode=755"},
		mount{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=620,ptmxmode=666"},
		mount{"tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, ""},
		mount{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		mount{"tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	)
	if err != nil {
		return err
	}
	for link, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, "/dev/"+link); err != nil {
			return err
		}
	}
	if err := mountDisk("var", "/var/lib", "ext4"); err != nil {
		return err
	}
	if err := os.Symlink("/run", "/var/run"); err != nil {
		return err
	}
	if err := firmwareVariables(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make / shared: %w", err)
	}
	loopback := exec.Command("/bin/busybox", "ip", "link", "set", "lo", "up")
	if out, err := loopback.CombinedOutput(); err != nil {
		return fmt.Errorf("loopback: %w: %s", err, out)
	}
	return controllers("/sys/fs/cgroup")
}

// firmwareVariables mounts the UEFI variables if the machine has UEFI, as systemd does.
func firmwareVariables() error {
	if _, err := os.Stat("/sys/firmware/efi"); err != nil {
		return nil //nolint:nilerr // no UEFI
	}
	if err := modprobe("efivarfs"); err != nil {
		return err
	}
	return mount{"efivarfs", "/sys/firmware/efi/efivars", "efivarfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""}.do()
}

// mountDisk mounts the virtio disk with this serial.
func mountDisk(serial, target, kind string) error {
	deadline := time.Now().Add(diskWait)
	for {
		matches, _ := filepath.Glob("/sys/block/vd*/serial") // the pattern is valid
		for _, m := range matches {
			if have, err := os.ReadFile(m); err != nil || strings.TrimSpace(string(have)) != serial {
				continue
			}
			var flags uintptr = unix.MS_NOATIME
			if kind == "erofs" {
				flags |= unix.MS_RDONLY
			}
			return mount{"/dev/" + filepath.Base(filepath.Dir(m)), target, kind, flags, ""}.do()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no virtio disk with serial %q after %s: %d disks have one", serial, diskWait, len(matches))
		}
		pause(10 * time.Millisecond)
	}
}

// supervise runs the server and reaps every orphan, as process 1 of a host does.
func supervise() error {
	server := exec.Command(labDir+"/agent", roleServe)
	server.Stdin, server.Stdout, server.Stderr = os.Stdin, os.Stdout, os.Stderr
	server.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	if err := server.Start(); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == server.Process.Pid:
			return fmt.Errorf("the server ended: %v", status)
		}
	}
}

func pause(d time.Duration) { <-time.After(d) }
