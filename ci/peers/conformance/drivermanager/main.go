// Program drivermanager does to a node what NVIDIA's k8s-driver-manager v0.12 does to it as the
// init container of the GPU Operator 26.7's driver pods, with the same verbs, variables, order and
// exit codes. NVIDIA's own program is not available as a Go module where the tests are made; this
// one was written for them after its sources (cmd/driver-manager/main.go).
//
// usage: drivermanager uninstall_driver | preflight_check
//
// It is as blind as the original where that matters to a driver: it does not look for processes
// that hold the driver, goes on with the next module when one cannot be unloaded, detaches only the
// uppermost mount of the driver root, and deletes NVIDIA's pid file although a driver may hold its
// lock.
//
// It leaves out what guests of the lab never have: a cluster, a driver on the host, nouveau,
// vfio-pci.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	log.SetFlags(log.LUTC | log.Ltime)
	if os.Getenv("NODE_NAME") == "" || len(os.Args) != 2 {
		log.Fatal("usage: NODE_NAME=... drivermanager uninstall_driver | preflight_check")
	}
	switch verb := os.Args[1]; verb {
	case "uninstall_driver":
		if err := uninstall(); err != nil {
			log.Fatal(err)
		}
	case "preflight_check": // the original checks nothing in it either
		log.Print("preflight checks completed")
	default:
		log.Fatalf("unknown verb %q", verb)
	}
}

// uninstall prepares the node for the driver that the pod's other container brings. A driver of the
// same digest stays.
func uninstall() error {
	digest := os.Getenv("DRIVER_CONFIG_DIGEST")
	stored, err := os.ReadFile("/run/nvidia/nvidia-driver.state")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch {
	case !loaded("nvidia"):
		log.Print("no driver is loaded: nothing is evicted")
	case digest != "" && strings.TrimSpace(string(stored)) == digest && os.Getenv("FORCE_REINSTALL") != "true":
		log.Printf("digest %s is equal: nothing is unloaded", digest)
	default:
		if err := unload(); err != nil {
			return fmt.Errorf("failed to uninstall nvidia driver components: %w", err)
		}
		log.Print("the driver is unloaded")
	}
	return cleanRoot()
}

func loaded(module string) bool {
	_, err := os.Stat("/sys/module/" + module + "/refcnt")
	return err == nil
}

// unload unloads what it can, in the original's order, and returns the errors of the rest.
// nvidia_drm is not among the modules.
func unload() error {
	var all error
	for _, name := range []string{"nvidia_modeset", "nvidia_uvm", "nvidia_peermem", "nvidia_fs", "nvidia_vgpu_vfio", "gdrdrv", "nvidia"} {
		if !loaded(name) {
			continue
		}
		if err := unix.DeleteModule(name, 0); err != nil {
			log.Printf("failed to unload kernel module %s: %v", name, err)
			all = errors.Join(all, fmt.Errorf("%s: %w", name, err))
		}
	}
	return all
}

// cleanRoot unmounts the driver root and deletes NVIDIA's pid file. Releases after v0.12 also
// delete the files by which validator and startup probe say that the driver is ready. The unmount
// is that of moby's mount.RecursiveUnmount: one lazy unmount of the root, which takes the mounts
// below it along; other mounts at the root stay.
func cleanRoot() error {
	const root, validations = "/run/nvidia/driver", "/run/nvidia/validations/"
	if err := unix.Unmount(root, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", root, err)
	}
	files, err := filepath.Glob(validations + "*-ready")
	if err != nil {
		return err
	}
	files = append(
		files,
		validations+".driver-ctr-ready",
		validations+".driver-daemons-status",
		"/run/nvidia/nvidia-driver.pid",
	)
	for _, path := range files {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Printf("failed to remove %s: %v", path, err)
		}
	}
	return nil
}
