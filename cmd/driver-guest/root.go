package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/images/rehearse/wire"
)

const (
	newRoot = "/newroot"
	secure  = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	// drivers find their devices in the background
	deviceLimit = time.Minute
)

// mount is a mount below the root that is made.
type mount struct {
	kind, path string
	flags      uintptr
	data       string
}

func mountAll(root string, mounts []mount) error {
	for _, m := range mounts {
		target := filepath.Join(root, m.path)
		err := os.MkdirAll(target, 0o755)
		if err != nil {
			return err
		}
		err = unix.Mount(m.kind, target, m.kind, m.flags, m.data)
		if err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, target, err)
		}
	}
	return nil
}

// buildRoot makes the host's file system. /usr is the kernel's disk under a layer in memory, so
// that it can be changed. The kernel's own first root does not do for runc: pivot_root fails on it.
func buildRoot(setup wire.Setup) error {
	err := mountAll("/", []mount{{"tmpfs", newRoot, 0, "mode=755"}})
	if err != nil {
		return err
	}
	err = os.Chdir(newRoot)
	if err != nil {
		return err
	}
	const folders = "lab/upper lab/work usr etc/modprobe.d root opt drivers var"
	for dir := range strings.FieldsSeq(folders) {
		err := os.MkdirAll(dir, 0o755)
		if err != nil {
			return err
		}
	}
	err = mountDisk(wire.Disk{Serial: wire.HostDisk, Path: "lab/usr"}, unix.MS_RDONLY)
	if err != nil {
		return err
	}
	const layers = "lowerdir=lab/usr/usr,upperdir=lab/upper,workdir=lab/work"
	err = mountAll(".", append([]mount{{"overlay", "usr", 0, layers}}, hostMounts...))
	if err != nil {
		return err
	}
	err = mountDisk(wire.Disk{Serial: wire.VarDisk, Path: "var/lib"}, 0)
	if err != nil {
		return err
	}
	for _, disk := range setup.Disks {
		err := mountDisk(disk, unix.MS_RDONLY)
		if err != nil {
			return err
		}
	}
	return writeFiles(setup)
}

// hostMounts are what systemd mounts.
var hostMounts = []mount{
	{"proc", "proc", secure, ""},
	{"sysfs", "sys", secure, ""},
	{"securityfs", "sys/kernel/security", secure, ""},
	{"cgroup2", "sys/fs/cgroup", secure, ""},
	{"devtmpfs", "dev", unix.MS_NOSUID, "mode=755"},
	{"devpts", "dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=620,ptmxmode=666"},
	{"tmpfs", "dev/shm", unix.MS_NOSUID | unix.MS_NODEV, ""},
	{"tmpfs", "run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
	{"tmpfs", "tmp", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
}

func writeFiles(setup wire.Setup) error {
	for name, target := range map[string]string{
		"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "var/run": "/run",
		"dev/fd": "/proc/self/fd", "dev/stdin": "/proc/self/fd/0",
		"dev/stdout": "/proc/self/fd/1", "dev/stderr": "/proc/self/fd/2",
	} {
		if strings.HasPrefix(target, "usr/") {
			err := os.MkdirAll(target, 0o755)
			if err != nil {
				return err
			}
		}
		err := os.Symlink(target, name)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for name, content := range map[string]string{ //nolint:gosec // there is no password
		"etc/os-release": setup.OSRelease,
		"etc/hostname":   "lab\n",
		"etc/hosts":      "127.0.0.1 localhost lab\n",
		"etc/passwd":     "root:x:0:0:root:/root:/bin/sh\n",
		"etc/group":      "root:x:0:\n",
		// so that containers can have limits
		"sys/fs/cgroup/cgroup.subtree_control": "+cpu +memory +pids\n",
	} {
		err := os.WriteFile(name, []byte(content), 0o644)
		if err != nil {
			return err
		}
	}
	return nil
}

// mountDisk mounts the virtio disk with a serial number.
func mountDisk(disk wire.Disk, flags uintptr) error {
	device, err := findDisk(disk.Serial)
	if err != nil {
		return err
	}
	kind, err := fileSystem(device)
	if err != nil {
		return err
	}
	target := filepath.Join(".", disk.Path)
	err = os.MkdirAll(target, 0o755)
	if err != nil {
		return err
	}
	err = unix.Mount(device, target, kind, unix.MS_NOATIME|flags, "")
	if err != nil {
		return fmt.Errorf("mount disk %s at /%s as %s: %w", disk.Serial, target, kind, err)
	}
	return nil
}

// fileSystem tells erofs by its superblock from ext4.
func fileSystem(device string) (string, error) {
	f, err := os.Open(device)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var magic [4]byte
	_, err = f.ReadAt(magic[:], 1024)
	if err != nil {
		return "", err
	}
	if magic == [4]byte{0xe2, 0xe1, 0xf5, 0xe0} {
		return "erofs", nil
	}
	return "ext4", nil
}

func findDisk(serial string) (device string, err error) {
	err = eventually(func() bool {
		files, _ := filepath.Glob("/sys/block/vd*/serial") // the pattern is right
		for _, file := range files {
			text, _ := os.ReadFile(file) //nolint:errcheck // another one may have it
			if string(text) == serial {
				device = "/dev/" + filepath.Base(filepath.Dir(file))
				_, err := os.Stat(device)
				return err == nil
			}
		}
		return false
	})
	if err != nil {
		return "", fmt.Errorf("no virtio disk has the serial number %s: %w", serial, err)
	}
	return device, nil
}

func eventually(ask func() bool) error {
	for end := time.Now().Add(deviceLimit); !ask(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %s", deviceLimit)
		}
	}
	return nil
}
