package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Names of this program in its other roles: process 1 of the node, and the container before it becomes the
// driver's program.
const (
	hostRole      = "nativestart-host"
	containerRole = "nativestart-container"
)

// world is what a container gets.
type world struct{ root, state, host, nvml, release string }

// beHost is process 1: its root is the node's, as in a pod with hostPID. It ends with the container.
func beHost(args []string) error {
	container := exec.Command("/proc/self/exe") //nolint:gosec,noctx // this program, which is killed with its namespace
	container.Args = append([]string{containerRole}, args...)
	container.Stdout, container.Stderr, container.ExtraFiles = os.Stdout, os.Stderr, []*os.File{os.NewFile(3, "supervisor")}
	container.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	runtime.LockOSThread() // the container ends with the thread that started it
	if err := container.Start(); err != nil {
		return err
	}
	os.NewFile(3, "supervisor").Close()
	if err := unix.Chroot(args[2]); err != nil {
		return err
	}
	return container.Wait()
}

// beContainer makes the container's mounts, hands the fake kernel's end of the filter to the supervisor, and
// becomes the program of the image.
func beContainer(args []string) error {
	w, dir := world{root: args[0], state: args[1], host: args[2], nvml: args[3]}, args[4]
	root := filepath.Join(dir, "root")
	if err := w.mountAll(root, dir); err != nil {
		return err
	}
	if err := errors.Join(unix.Chdir(root), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), unix.Chdir("/")); err != nil {
		return fmt.Errorf("change the root to %s: %w", root, err)
	}
	runtime.LockOSThread() // a filter belongs to its thread until exec
	listener, err := filter()
	if err != nil {
		return fmt.Errorf("install the filter of system calls: %w", err)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return fmt.Errorf("hand over the filter: %w", err)
	}
	unix.CloseOnExec(3)
	return unix.Exec("/usr/local/bin/nvidia-driver", []string{"nvidia-driver", "init"}, []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"ACCEPT_LICENSE=true", "DRIVER_PERSISTENCE=false", "KERNEL_MODULE_TYPE=proprietary",
	})
}

// receive waits for the container's end of the filter; began is when it becomes the program of the image.
func receive(from *os.File) (listener *os.File, began time.Time, err error) {
	rights := make([]byte, unix.CmsgSpace(4))
	n, control, _, _, err := unix.Recvmsg(int(from.Fd()), make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	began = time.Now()
	if err != nil || n == 0 {
		return nil, began, errors.Join(errors.New("it ended"), err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:control])
	if err != nil || len(messages) == 0 {
		return nil, began, errors.Join(errors.New("no filter"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, began, err
	}
	return os.NewFile(uintptr(fds[0]), "listener"), began, nil
}

// mount is one mount of the container.
type mount struct {
	what, kind, at string
	flags          uintptr
	data           string
}

// mountAll makes the root of a privileged pod of the driver. The image is the lower layer, as containerd
// mounts it. /sys and /proc are the machine's, except the files that speak of modules, GPUs and the driver.
func (w world) mountAll(root, dir string) error {
	kernel, libs := filepath.Join(dir, "kernel"), filepath.Join(dir, "upper/usr/lib", "x86_64-linux-gnu")
	for _, d := range []string{root, libs, filepath.Join(dir, "work")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	nvml, err := os.ReadFile(w.nvml)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(libs, "libnvidia-ml.so.1"), nvml, 0o644); err != nil {
		return err
	}
	for _, m := range []mount{
		{"none", "", "/", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"overlay", "overlay", root, 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%[2]s/work", w.root, dir)},
		{"proc", "proc", "/proc", 0, ""},
		{"/sys", "", "/sys", unix.MS_BIND | unix.MS_REC, ""},
		{"tmpfs", "tmpfs", "/dev", 0, "mode=0755"},
		{"/dev/kmsg", "", "/dev/kmsg", unix.MS_BIND, ""},
		{"/dev/null", "", "/dev/null", unix.MS_BIND, ""},
		{"/dev/urandom", "", "/dev/urandom", unix.MS_BIND, ""},
		{"tmpfs", "tmpfs", "/run/nvidia", 0, "mode=0755"},
		{"none", "", "/run/nvidia", unix.MS_SHARED, ""},
		{w.state, "", "/var/lib/nvidia-driver", unix.MS_BIND, ""},
		{filepath.Join(w.host, "usr/lib/modules"), "", "/usr/lib/modules", unix.MS_BIND, ""},
		{kernel + "/modules", "", "/proc/modules", unix.MS_BIND, ""},
		{kernel + "/devices", "", "/proc/devices", unix.MS_BIND, ""},
		{kernel + "/driver", "", "/proc/driver", unix.MS_BIND, ""},
		{kernel + "/module", "", "/sys/module", unix.MS_BIND, ""},
		{kernel + "/pci", "", "/sys/bus/pci/devices", unix.MS_BIND, ""},
	} {
		at := m.at
		if at != "/" && at != root {
			at = filepath.Join(root, at)
		}
		if err := target(m.what, at); errors.Is(err, fs.ErrNotExist) && m.at == "/proc/modules" {
			continue // this machine's kernel has no modules: then the node's list counts as empty
		} else if err != nil {
			return err
		}
		if err := unix.Mount(m.what, at, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.what, at, err)
		}
	}
	return nil
}

// target makes the folder or the file that something is mounted on.
func target(what, at string) error {
	if _, err := os.Stat(at); err == nil {
		return nil
	}
	if info, err := os.Stat(what); err == nil && filepath.IsAbs(what) && !info.IsDir() {
		return os.WriteFile(at, nil, 0o600)
	}
	return os.MkdirAll(at, 0o755)
}
