// Command driver-build turns rows of a version matrix into NVIDIA driver images. See its --help and
// docs/driver-build.md.
package main

import (
	"context"
	"fmt"
	"io"
	"log" //nolint:depguard // to silence it
	"os"
	"os/signal"
	"syscall"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/runner/chroot"
)

func main() {
	chroot.Init()             // this process may be the inside of a compile
	log.SetOutput(io.Discard) // libraries write to it: HTTP/2 a line for each transfer to a BuildKit daemon that is cut off
	if err := limitMemory(); err != nil {
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
