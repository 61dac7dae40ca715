package supplychain

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// outside is set in the process that has no network: the namespace of the network that its parent
// has.
const outside = "DRIVER_SUPPLYCHAIN_NETWORK"

// Offline runs the tests of a package in a process whose only network interface is loopback, and
// returns the exit code; TestMain calls it. Program still reaches the network. Where the real tier
// does not run, the tests, which skip themselves, run as usual.
func Offline(m *testing.M) int {
	if os.Getenv("DRIVER_E2E") == "" {
		return m.Run()
	}
	if os.Getenv(outside) != "" {
		if err := loopback(); err != nil {
			fmt.Fprintln(os.Stderr, "start lo, the only interface of the tests' network:", err)
			return 1
		}
		return m.Run()
	}
	return tool.InNamespace(
		syscall.CLONE_NEWNET,
		"network",
		fmt.Sprintf("%s=/proc/%d/ns/net", outside, os.Getpid()),
	)
}

// connected calls do with the network that Offline took away. Programs that do starts have it too.
func connected(do func() error) error {
	path := os.Getenv(outside)
	if path == "" {
		return do()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and no unlock: the thread ends with the goroutine
		done <- func() error {
			namespace, err := os.Open(path)
			if err != nil {
				return err
			}
			defer namespace.Close()
			if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter the network of %s: %w", path, err)
			}
			return do()
		}()
	}()
	return <-done
}

func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written to it
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}
