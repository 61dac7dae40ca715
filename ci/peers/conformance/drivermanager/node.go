package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const root = "/run/nvidia/driver"

// modules are unloaded in this order. nvidia_drm is not among them.
var modules = []string{"nvidia_modeset", "nvidia_uvm", "nvidia_peermem", "nvidia_fs", "nvidia_vgpu_vfio", "gdrdrv", "nvidia"}

// hostDriver returns the version of a driver that is installed on the host, "" for none.
func hostDriver() string {
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/bin", "/sbin"} {
		if _, err := os.Lstat(filepath.Join("/host", dir, "nvidia-smi")); err != nil {
			continue
		}
		cmd := exec.Command(dir+"/nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
		cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Chroot: "/host"}, "/"
		if out, err := cmd.Output(); err == nil && len(out) > 0 {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
}

func loaded() bool { return has("nvidia") }

func has(module string) bool {
	_, err := os.Stat("/sys/module/" + module + "/refcnt")
	return err == nil
}

// unload unloads what it can, and returns the errors of the rest.
func unload() error {
	var all error
	for _, name := range modules {
		if !has(name) {
			continue
		}
		if err := unix.DeleteModule(name, 0); err != nil {
			log.Printf("failed to unload kernel module %s: %v", name, err)
			all = errors.Join(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	if all != nil {
		log.Print("could not unload NVIDIA driver kernel modules, driver is in use")
	}
	return all
}

// cleanRoot unmounts the driver root and deletes NVIDIA's pid file. Releases after v0.12 also delete the
// files by which validator and startup probe say that the driver is ready. The unmount is that of moby's
// mount.RecursiveUnmount: one lazy unmount of the root, which takes the mounts below it along; other mounts
// at the root stay.
func cleanRoot() error {
	if err := unix.Unmount(root, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", root, err)
	}
	files, err := filepath.Glob("/run/nvidia/validations/*-ready")
	if err != nil {
		return err
	}
	for _, path := range append(files, "/run/nvidia/validations/.driver-ctr-ready", "/run/nvidia/validations/.driver-daemons-status", "/run/nvidia/nvidia-driver.pid") {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Printf("failed to remove %s: %v", path, err)
		}
	}
	return nil
}
