//go:build linux

package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// InNamespace runs this program again with a new namespace, such as CLONE_NEWNET, and one more
// variable in its environment, and returns the exit code. It needs root; what names the namespace
// in the message.
func InNamespace(namespace uintptr, what, variable string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), variable)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespace}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(
			os.Stderr,
			"start the tests in a %s namespace of their own (they need root): %v\n",
			what,
			err,
		)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}
