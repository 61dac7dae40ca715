package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/lab/wire"
)

// Descriptors that launch hands to the roles container and enter.
const (
	specFD   = 3
	reportFD = 4
)

// handover reads the specification, does the setup and becomes the command. It only returns after an error,
// and has then reported that error to the server.
func handover(setup func(wire.Spec) error) error {
	unix.CloseOnExec(specFD)
	unix.CloseOnExec(reportFD)
	report := os.NewFile(reportFD, "report")
	err := func() error {
		var spec wire.Spec
		text, err := io.ReadAll(os.NewFile(specFD, "specification"))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &spec); err != nil {
			return err
		}
		if err := setup(spec); err != nil {
			return err
		}
		return become(spec)
	}()
	fmt.Fprintf(report, "%v", err)
	return err
}

// become replaces this process by the command, found in the PATH of its own environment.
func become(spec wire.Spec) error {
	if spec.Dir != "" {
		if err := os.Chdir(spec.Dir); err != nil {
			return err
		}
	}
	for _, e := range slices.Backward(spec.Env) {
		if value, found := strings.CutPrefix(e, "PATH="); found {
			if err := os.Setenv("PATH", value); err != nil {
				return err
			}
			break
		}
	}
	path, err := exec.LookPath(spec.Args[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("exec %s: %w", path, syscall.Exec(path, spec.Args, spec.Env))
}

// containerMain runs in fresh namespaces.
func containerMain() error {
	return handover(func(spec wire.Spec) error {
		root := filepath.Join(tasks, spec.ID, "rootfs")
		if err := fill(root, spec); err != nil {
			return err
		}
		shared := slices.ContainsFunc(spec.Binds, func(b wire.Bind) bool { return b.Shared })
		if err := pivot(root, shared); err != nil {
			return err
		}
		return unix.Sethostname([]byte(spec.Name))
	})
}

// fill mounts everything into the root file system. The namespace is a copy of the host's and a peer of it,
// so mounts that must not appear on the host are made below a private mount.
func fill(root string, spec wire.Spec) error {
	if err := unix.Mount("", root, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make %s private: %w", root, err)
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", root, err)
	}
	const secure = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	err := mountAll(
		mount{"proc", root + "/proc", "proc", secure, ""},
		mount{"sysfs", root + "/sys", "sysfs", secure, ""},
		mount{"cgroup", root + "/sys/fs/cgroup", "cgroup2", secure, ""},
	)
	if err != nil {
		return err
	}
	if err := fillDev(root+"/dev", spec.HostDev); err != nil {
		return fmt.Errorf("/dev: %w", err)
	}
	for _, b := range spec.Binds {
		if err := bind(root, b); err != nil {
			return err
		}
	}
	return nil
}

// bind mounts a folder or file of the host in the container's root.
func bind(root string, b wire.Bind) error {
	target, err := mountPoint(root, b)
	if err != nil {
		return fmt.Errorf("mount point %s: %w", b.Guest, err)
	}
	if err := unix.Mount(b.Host, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s on %s: %w", b.Host, b.Guest, err)
	}
	propagation := uintptr(unix.MS_PRIVATE)
	if b.Shared {
		propagation = unix.MS_SHARED
	}
	if err := unix.Mount("", target, "", propagation|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("propagation of %s: %w", b.Guest, err)
	}
	if !b.ReadOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read only: %w", b.Guest, err)
	}
	return nil
}

// pivot makes the container's root the root of its mount namespace. The old root becomes a slave first:
// unmounting a shared tree would unmount the host's.
func pivot(root string, shared bool) error {
	old, err := unix.Open("/", unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"chdir", func() error { return unix.Chdir(root) }},
		{"pivot_root", func() error { return unix.PivotRoot(".", ".") }},
		{"old root", func() error { return unix.Fchdir(old) }},
		{"make the old root a slave", func() error { return unix.Mount("", ".", "", unix.MS_SLAVE|unix.MS_REC, "") }},
		{"unmount the old root", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		{"chdir", func() error { return unix.Chdir("/") }},
		{"root propagation", func() error {
			if !shared {
				return nil
			}
			return unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "") // containerd asks for this when a mount is Bidirectional
		}},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return unix.Close(old)
}
