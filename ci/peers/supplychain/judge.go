package supplychain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// judgeTime is the longest time that a judge takes, on a busy machine and with an image of 1 GB.
const judgeTime = 5 * time.Minute

// run starts a judge in an empty home, without what the user's environment sets for it, and returns its
// standard output. An error has the exit code (see ExitCode) and what the judge wrote on standard error.
func run(t testing.TB, program string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), judgeTime)
	defer cancel()
	home := t.TempDir()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = home, &stdout, &stderr, 5*time.Second
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "COSIGN_PASSWORD="}
	if err := cmd.Run(); err != nil {
		text := bytes.TrimSpace(stderr.Bytes())
		return stdout.Bytes(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, text[max(0, len(text)-2<<10):])
	}
	return stdout.Bytes(), nil
}

// ExitCode is the exit code of a judge, -1 where it did not end by itself.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// Keys are the files of a pair of keys.
type Keys struct{ Private, Public string }
