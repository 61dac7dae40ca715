// Command driver-build turns rows of a version matrix into NVIDIA driver images. See its --help and
// docs/build.md.
package main

import (
	"context"
	"fmt"
	"io"
	"log" //nolint:depguard // to silence it
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/runner/chroot"
)

func main() {
	chroot.Init()             // this process may be the inside of a compile
	log.SetOutput(io.Discard) // libraries write to it: HTTP/2 a line for each transfer to a BuildKit daemon that is cut off
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heap)
	}
	if err := checkMemory(syscall.Getrlimit); err != nil {
		fmt.Fprintln(os.Stderr, "driver-build:", err)
		os.Exit(session.ExitUnexpected)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		cancel(session.SignalError{Signal: <-signals})
		signal.Reset(syscall.SIGINT, syscall.SIGTERM) // a second signal ends the process at once
	}()
	a := &session.App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	os.Exit(a.Execute(ctx, newRootCmd(a), os.Args[1:])) //nolint:contextcheck // commands get theirs from ExecuteContext
}

// heap keeps the collector ahead of the decoders' buffers: a build stays below 300 MB whatever the driver's
// size. It is a soft limit, and GOMEMLIMIT overrides it.
const heap = 200 << 20

// least are the lowest limits under which every command works: of the data of a process (ulimit -d), to which its
// heap and the stacks of its threads count, and of its address space (ulimit -v), of which Go reserves much more than
// it uses.
var least = []struct {
	resource int
	ulimit   string
	bytes    uint64
}{{syscall.RLIMIT_DATA, "-d", 512 << 20}, {syscall.RLIMIT_AS, "-v", 2 << 30}}

// checkMemory refuses lower limits before the work begins. When memory runs out later, Go's
// runtime ends the process with a trace and exit code 2.
func checkMemory(limit func(resource int, l *syscall.Rlimit) error) error {
	for _, l := range least {
		var have syscall.Rlimit
		if err := limit(l.resource, &have); err != nil {
			return fmt.Errorf("read this process's limit of memory: %w", err)
		}
		if have.Cur < l.bytes {
			return fmt.Errorf("this process may use %d MiB of memory (ulimit %s), but needs up to %d MiB: raise the limit with ulimit %s %d",
				have.Cur>>20, l.ulimit, l.bytes>>20, l.ulimit, l.bytes>>10)
		}
	}
	return nil
}
