package driverroot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// The sysfs of a privileged pod with a network of its own, as containerd makes it: the sandbox mounts it
// first and read-only, which makes the whole file system read-only. The container's mount then has the option
// rw but is not writable.
func TestSysfsOfAPod(t *testing.T) {
	t.Parallel()
	tool.AsRoot(t, "for namespaces of its own")
	sandbox, container := t.TempDir(), t.TempDir()
	var err error
	onOwnThread(func() { err = sysfsOfAPod(sandbox, container) })
	assert.NoError(t, err)
}

func sysfsOfAPod(sandbox, container string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("sysfs", sandbox, "sysfs", unix.MS_RDONLY, ""),
		unix.Mount("sysfs", container, "sysfs", 0, "")); err != nil {
		return err
	}
	file := filepath.Join(container, "class/net/lo/tx_queue_len") // of this network only
	if f, err := os.OpenFile(file, os.O_WRONLY, 0); !errors.Is(err, unix.EROFS) {
		return errors.Join(errors.New("it is writable already"), err, f.Close())
	}
	if err := writeParameter(container, file, "123"); err != nil {
		return err
	}
	if text, err := readParameter(file); text != "123" || err != nil {
		return errors.Join(errors.New("not written: "+text), err)
	}
	if _, err := os.OpenFile(filepath.Join(sandbox, "class/net/lo/tx_queue_len"), os.O_WRONLY, 0); !errors.Is(err, unix.EROFS) {
		return errors.Join(errors.New("the sandbox' mount is writable, too"), err)
	}
	return nil
}
