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

	"github.com/driver-container/driver-container/node/mounttable"
)

// firmwareDir is the folder of the firmware in driver images. It differs from /lib/firmware because
// pods mount volumes there.
const firmwareDir = "usr/share/nvidia-driver/firmware/nvidia"

// serveFirmware makes lib/firmware/nvidia/<version> a relative link to the firmware. A relative
// link also works for the kernel, which opens the path in the host's root: an absolute link would
// leave the driver root.
func serveFirmware(root *os.Root, version string) error {
	from := path.Join(firmwareDir, version)
	if _, err := root.Stat(from); err != nil {
		return nil //nolint:nilerr // drivers before GSP have no firmware
	}
	dir := "lib/firmware/nvidia"
	up := "../../../"
	// merged /usr: lib -> usr/lib
	if st, err := root.Lstat("lib"); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		dir = "usr/lib/firmware/nvidia"
		up = "../../../../"
	}
	link := path.Join(dir, version)
	if _, err := root.Stat(link); err == nil {
		return nil
	}
	err := errors.Join(root.MkdirAll(dir, 0o755), root.RemoveAll(link), root.Symlink(up+from, link))
	if err != nil {
		return fmt.Errorf("serve the firmware: %w", err)
	}
	return nil
}

// Firmware makes the kernel look for firmware in the root, see setFirmwarePath.
func (r *Root) Firmware() error { return setFirmwarePath("/sys", r.Target) }

// ClearFirmware ends that, whichever container set it. The path of another program stays.
func (r *Root) ClearFirmware() error { return clearFirmwarePath("/sys", r.Target) }

// firmwareParameter is the search path of the kernel's firmware loader, below a mounted sysfs.
const firmwareParameter = "module/firmware_class/parameters/path"

// setFirmwarePath makes the kernel look for firmware in <target>/lib/firmware. It writes the
// parameter of the kernel's firmware loader below sys, a mounted sysfs, without a newline, which
// older kernels take as a part of the path. It keeps the value of another program, which is an
// error, unless that folder exists neither here nor for process 1: then a driver container left it
// behind that ended long ago. On a kernel without the parameter the error is fs.ErrNotExist.
func setFirmwarePath(sys, target string) error {
	file := filepath.Join(sys, firmwareParameter)
	ours := filepath.Join(target, "lib/firmware")
	now, err := readParameter(file)
	if err != nil {
		return fmt.Errorf("set the kernel's firmware path: %w", err)
	}
	if now == ours {
		return nil
	}
	if now != "" && !mounttable.AtOrBelow(now, target) && folderExists(now) {
		return fmt.Errorf("%s is %q, set by another program, and was kept: "+
			"the driver's firmware is found only if it is there too (in nvidia/<version>)", file, now)
	}
	err = writeParameter(sys, file, ours)
	if err != nil {
		return fmt.Errorf("set the kernel's firmware path to %s: %w", ours, err)
	}
	return nil
}

func clearFirmwarePath(sys, target string) error {
	file := filepath.Join(sys, firmwareParameter)
	now, err := readParameter(file)
	if errors.Is(err, fs.ErrNotExist) { // this kernel has none
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the kernel's firmware path: %w", err)
	}
	if !mounttable.AtOrBelow(now, target) {
		return nil
	}
	// The kernel takes a single byte 0 for the empty text; a write of no bytes does not reach it.
	err = writeParameter(sys, file, "\x00")
	if err != nil {
		return fmt.Errorf("clear the kernel's firmware path: %w", err)
	}
	return nil
}

// folderExists also looks in the root of process 1, which is the host's when the pod has hostPID:
// the kernel loads firmware from its root.
func folderExists(dir string) bool {
	for _, at := range []string{dir, filepath.Join("/proc/1/root", dir)} {
		if st, err := os.Stat(at); err == nil && st.IsDir() {
			return true
		}
	}
	return false
}

func readParameter(file string) (string, error) {
	text, err := os.ReadFile(file) // a file of sysfs has at most one page
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

// remountWritable makes a sysfs writable whose superblock is read-only, whatever the options of its
// mount. A privileged pod with a network of its own has such a sysfs: the pod's sandbox mounts that
// network's sysfs first and read-only, and containerd then only asks for a writable mount of the
// same file system. Only this pod sees the change.
func remountWritable(sys string) error {
	const flags = unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", sys, "", flags, ""); err != nil {
		return fmt.Errorf(
			"make %s writable: %w; mount the host's /sys/module/firmware_class/parameters/path (hostPath) at the same path",
			sys,
			err,
		)
	}
	return nil
}
