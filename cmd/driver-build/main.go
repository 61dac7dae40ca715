// Command driver-build turns rows of a version matrix into NVIDIA driver images. See its --help and docs/driver-build.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string { return "stopped by signal: " + i.signal.String() }

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		cancel(interrupted{<-signals})
		signal.Reset(syscall.SIGINT, syscall.SIGTERM) // a second signal ends the process at once
	}()
	app := &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	err := newRootCmd(app).ExecuteContext(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "driver-build:", err)
	}
	os.Exit(exitCode(err))
}
