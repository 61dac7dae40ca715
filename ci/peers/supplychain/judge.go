package supplychain

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// judgeTime is the longest time that a judge takes, on a busy machine and with an image of 1 GB.
const judgeTime = 5 * time.Minute

// run starts a judge in an empty home, without what the user's environment sets for it, and returns
// its standard output. An error has the exit code (see ExitCode) and what the judge wrote.
func run(t testing.TB, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), judgeTime)
	defer cancel()
	home := t.TempDir()
	clean := []string{
		"env",
		"-i",
		"HOME=" + home,
		"PATH=/usr/bin:/bin",
		"COSIGN_PASSWORD=",
		"SYFT_CHECK_FOR_APP_UPDATE=false",
		program,
	}
	return tool.Run(ctx, home, nil, append(clean, args...)...)
}

// ExitCode is the exit code in the error of a judge, -1 where it did not end by itself.
func ExitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// Keys are the files of a pair of keys.
type Keys struct{ Private, Public string }
