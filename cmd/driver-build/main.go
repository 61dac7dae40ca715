// Command driver-build turns rows of a version matrix into NVIDIA driver images. See its --help and docs/driver-build.md.
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

	"github.com/driver-container/driver-container/images/runner/chroot"
)

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string { return "stopped by signal: " + i.signal.String() }

// memoryLimit keeps the collector ahead of the decoders' buffers: a build stays below 300 MB whatever the driver's size.
// It is a soft limit, and GOMEMLIMIT overrides it.
const memoryLimit = 200 << 20

func main() {
	chroot.Init()             // this process may be the inside of a compile
	log.SetOutput(io.Discard) // libraries write to it: HTTP/2 a line for each transfer to a BuildKit daemon that is cut off
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		cancel(interrupted{<-signals})
		signal.Reset(syscall.SIGINT, syscall.SIGTERM) // a second signal ends the process at once
	}()
	os.Exit(run(ctx, &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}, os.Args[1:]))
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, a *app, args []string) int {
	cmd := newRootCmd(a) //nolint:contextcheck // commands get theirs from ExecuteContext
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if err != nil {
		fmt.Fprintln(a.stderr, "driver-build:", err)
	}
	return exitCode(err)
}
