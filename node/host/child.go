package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// signalled is the exit code of a child that a signal ended.
const signalled = -1

// runChild runs this program with other arguments and waits for it up to a limit. A process that hangs in the
// kernel cannot be killed; it is left to the shim.
func runChild(ctx context.Context, limit time.Duration, args ...string) (code int, output string, err error) {
	cmd := exec.Command("/proc/self/exe", args...) //nolint:noctx // killed below: a context would wait for its end
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case err = <-done:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		select {
		case err = <-done: // it had not begun: nothing hangs
			if err == nil {
				break
			}
			return 0, "", context.Cause(ctx)
		case <-time.After(2 * time.Second):
			return 0, "", fmt.Errorf("%w after %s", errHung, limit)
		}
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), out.String(), nil
	}
	return 0, out.String(), err
}
