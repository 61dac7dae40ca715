package conformance

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// privately is set in the process that has a mount namespace of its own.
const privately = "DRIVER_CONFORMANCE_PRIVATE"

// TestMain runs the real tier in a mount namespace of its own, because roots are served at
// /run/nvidia/driver.
func TestMain(m *testing.M) {
	Examine()
	if os.Getenv("DRIVER_E2E") == "" || os.Getenv(privately) != "" {
		os.Exit(m.Run())
	}
	os.Exit(tool.InNamespace(syscall.CLONE_NEWNS, "mount", privately+"=1"))
}

// private gives this process its own /run and /dev, once: the driver's device nodes are in that /dev. It
// skips the test where the real tier does not run.
func private(t *testing.T) context.Context {
	t.Helper()
	tool.Real(t, "it asks programs that are not ours: it needs root, runc and ci/e2e/setup")
	require.NoErrorf(t, mounts(), "make /run and /dev private")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var mounts = sync.OnceValue(func() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/run", "/dev"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
	}
	// systemd makes /run shared too; propagation makes the driver root visible to other mount namespaces.
	if err := unix.Mount("", "/run", "", unix.MS_SHARED, ""); err != nil {
		return err
	}
	nodes := map[string]uint64{
		"null": unix.Mkdev(1, 3), "zero": unix.Mkdev(1, 5), "full": unix.Mkdev(1, 7), "random": unix.Mkdev(1, 8),
		"urandom": unix.Mkdev(1, 9), "tty": unix.Mkdev(5, 0),
		"nvidiactl": unix.Mkdev(195, 255), "nvidia-modeset": unix.Mkdev(195, 254),
		"nvidia-uvm": unix.Mkdev(511, 0), "nvidia-uvm-tools": unix.Mkdev(511, 1),
	}
	for gpu := range uint32(2) {
		nodes["nvidia"+strconv.Itoa(int(gpu))] = unix.Mkdev(195, gpu)
	}
	for name, rdev := range nodes {
		if err := unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(rdev)); err != nil {
			return fmt.Errorf("/dev/%s: %w", name, err)
		}
		if err := os.Chmod("/dev/"+name, 0o666); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+target, "/dev/"+link); err != nil {
			return err
		}
	}
	return os.Mkdir("/dev/shm", 0o1777)
})
