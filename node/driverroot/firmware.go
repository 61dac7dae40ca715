package driverroot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// firmwareDir is where driver images keep the firmware, out of the way of pods that mount something over /lib/firmware.
const firmwareDir = "usr/share/nvidia-driver/firmware/nvidia"

// serveFirmware makes lib/firmware/nvidia/<version> lead to the firmware by a relative link, which works for the kernel as well:
// it opens the path in the host's root, where an absolute link would leave the driver root.
func serveFirmware(root *os.Root, version string) error {
	from := path.Join(firmwareDir, version)
	if _, err := root.Stat(from); err != nil {
		return nil //nolint:nilerr // drivers before GSP have no firmware
	}
	dir, up := "lib/firmware/nvidia", "../../../"
	if st, err := root.Lstat("lib"); err == nil && st.Mode()&fs.ModeSymlink != 0 { // merged /usr: lib -> usr/lib
		dir, up = "usr/lib/firmware/nvidia", "../../../../"
	}
	link := path.Join(dir, version)
	if _, err := root.Stat(link); err == nil {
		return nil
	}
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("serve the firmware: %w", err)
	}
	if err := root.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("serve the firmware: %w", err)
	}
	if err := root.Symlink(up+from, link); err != nil {
		return fmt.Errorf("serve the firmware: %w", err)
	}
	return nil
}

// ForeignPathError is a warning: the kernel's firmware search path is somebody else's and was kept.
type ForeignPathError struct{ Parameter, Path string }

func (e *ForeignPathError) Error() string {
	return fmt.Sprintf("%s is %q, set by somebody else, and was kept: the driver's firmware is found only if it is there too (in nvidia/<version>)", e.Parameter, e.Path)
}

// SetFirmwarePath makes the kernel look for firmware in <target>/lib/firmware, by a parameter of its firmware loader below
// sys, a mounted sysfs. The path is written without a newline, which older kernels take as a part of it. A value of somebody
// else is kept, see ForeignPathError, unless there is no such folder, neither here nor for process 1: what a driver container
// left behind that is long gone. A kernel without the parameter gives fs.ErrNotExist. undo clears the path if it is still ours
// and is never nil.
func SetFirmwarePath(sys, target string) (undo func() error, err error) {
	file := filepath.Join(sys, "module/firmware_class/parameters/path")
	ours := filepath.Join(target, "lib/firmware")
	nothing := func() error { return nil }
	now, err := readParameter(file)
	if err != nil {
		return nothing, fmt.Errorf("set the kernel's firmware path: %w", err)
	}
	if now != "" && now != ours && !strings.HasPrefix(now, filepath.Clean(target)+"/") && folderExists(now) {
		return nothing, &ForeignPathError{file, now}
	}
	if now != ours {
		if err := writeParameter(sys, file, ours); err != nil {
			return nothing, fmt.Errorf("set the kernel's firmware path to %s: %w", ours, err)
		}
	}
	return func() error {
		now, err := readParameter(file)
		if err != nil {
			return fmt.Errorf("clear the kernel's firmware path: %w", err)
		}
		if now != ours {
			return nil
		}
		// One byte 0 is the empty text to the kernel; of a write of no bytes it hears nothing.
		if err := writeParameter(sys, file, "\x00"); err != nil {
			return fmt.Errorf("clear the kernel's firmware path: %w", err)
		}
		return nil
	}, nil
}

// folderExists looks as process 1 too, which is the host's when the pod has hostPID: the kernel loads firmware in its root.
func folderExists(dir string) bool {
	for _, at := range []string{dir, filepath.Join("/proc/1/root", dir)} {
		if st, err := os.Stat(at); err == nil && st.IsDir() {
			return true
		}
	}
	return false
}

func readParameter(file string) (string, error) {
	text, err := os.ReadFile(file) //nolint:gosec // sysfs gives a page at most
	return strings.Trim(string(text), "\n\x00"), err
}

func writeParameter(sys, file, value string) error {
	f, err := os.OpenFile(file, unix.O_WRONLY|unix.O_TRUNC, 0)
	if errors.Is(err, unix.EROFS) {
		if rerr := remountWritable(sys); rerr != nil {
			return errors.Join(err, rerr)
		}
		f, err = os.OpenFile(file, unix.O_WRONLY|unix.O_TRUNC, 0)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// remountWritable makes a sysfs writable whose file system as a whole is not, whatever its mount says. A privileged pod with a network of
// its own has one: that network's sysfs is first mounted by the pod's sandbox, read-only, and containerd asks for no more than a writable
// mount of the same. Only this pod sees the change.
func remountWritable(sys string) error {
	const flags = unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", sys, "", flags, ""); err != nil {
		return fmt.Errorf("make %s writable: %w; mount the host's /sys/module/firmware_class/parameters/path (hostPath) at the same path", sys, err)
	}
	return nil
}
