package driverroot

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRealImage stages and serves an unpacked driver image: DRIVER_IMAGE is its root folder, or / when this runs in a container of
// it, DRIVER_VERSION its driver, DRIVER_MODULE a nvidia.ko to add; the storage is in TMPDIR.
func TestRealImage(t *testing.T) {
	dir, version := os.Getenv("DRIVER_IMAGE"), os.Getenv("DRIVER_VERSION")
	if dir == "" || os.Getuid() != 0 {
		t.Skip("needs root, DRIVER_IMAGE and DRIVER_VERSION")
	}
	work := t.TempDir()
	for _, bind := range []string{"proc", "sys", "dev"} {
		if dir != "/" {
			check(t, unix.Mount("/"+bind, filepath.Join(dir, bind), "", unix.MS_BIND, ""))
			t.Cleanup(func() { check(t, unix.Unmount(filepath.Join(dir, bind), unix.MNT_DETACH)) })
		}
	}
	r := Root{Target: filepath.Join(sharedRun(t), "driver"), Image: dir, Storage: filepath.Join(work, "storage"), ID: testID, Version: version, HostDev: true, Say: t.Logf}
	timed := func(what string, f func() error) {
		started := time.Now()
		check(t, f())
		t.Logf("%s: %v", what, time.Since(started))
	}
	var s Staged
	timed("stage", func() (err error) { s, err = r.Stage(t.Context()); return err })
	timed("stage again", func() (err error) { _, err = r.Stage(t.Context()); return err })
	timed("mount", func() error { return s.Mount(t.Context()) })
	for _, why := range Lint(r.Target, version, true) {
		t.Errorf("finding: %s", why)
	}
	if ok, why := r.Adoptable(); !ok {
		t.Errorf("not adoptable: %s", why)
	}
	if ko := os.Getenv("DRIVER_MODULE"); ko != "" {
		add := func() error { return s.AddModules(t.Context(), release, []Module{{Path: ko, SHA256: "x"}}) }
		timed("modules", add)
		timed("modules again", add)
		inside(t, r.Target, "modprobe", "--show-depends", "-S", release, "nvidia")
	}
	inside(t, r.Target, "ldconfig", "-p")
	inside(t, r.Target, "nvidia-smi", "--version")
	timed("unmount", func() error { _, err := r.Unmount(t.Context()); return err })
	timed("prune", func() error { other := r; other.ID = "f" + testID[1:]; return other.Prune(0) })
	r.Storage = ""
	s, err := r.Stage(t.Context())
	check(t, err)
	timed("mount the image", func() error { return s.Mount(t.Context()) })
	for _, why := range Lint(r.Target, version, true) {
		t.Errorf("finding in the image: %s", why)
	}
	_, err = r.Unmount(t.Context())
	check(t, err)
}

// inside runs a program of the root in a chroot, as consumers do, and shows what it says.
func inside(t *testing.T, root string, args ...string) {
	t.Helper()
	cmd := exec.Command("/usr/bin/env", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.CombinedOutput()
	t.Logf("%q in the root: %v\n%.300s", args, err, out)
	if exit := cmd.ProcessState; exit == nil || exit.ExitCode() > 9 { // 9: nvidia-smi without a driver
		t.Error(fmt.Errorf("%q does not run in the root: %w", args, err))
	}
}
