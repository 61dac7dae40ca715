package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestHome: without a usable HOME, commands that need no cache work, and the others say what to give.
func TestHome(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	require.NoError(t, os.WriteFile(u.Path("matrix.yaml"), []byte(u.Matrix()), 0o600))
	for name, tc := range map[string]struct {
		env  []string
		says string
	}{
		"none":      {nil, "no place for the cache: "},
		"read-only": {[]string{"HOME=/proc"}, "/proc/.cache/driver-build"},
		"relative":  {[]string{"HOME=here"}, "is not absolute"},
	} {
		for args, code := range map[string]int{"list": 0, "version": 0, "kernels --os debian12": 2, "drivers --offline": 2} {
			var stdout, stderr strings.Builder
			cmd := exec.CommandContext(t.Context(), require.Value(os.Executable())(t), strings.Fields(args)...)
			cmd.Env = append([]string{asProgram + "=1"}, tc.env...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = u.Dir, &stdout, &stderr
			_ = cmd.Run() // the exit code is below
			if got := cmd.ProcessState.ExitCode(); got != code || code == 2 && (!strings.Contains(stderr.String(), tc.says) || stdout.Len() > 0) {
				t.Errorf("HOME %s, %s: exit code %d\n%s%s", name, args, got, &stdout, &stderr)
			}
		}
	}
	if _, err := os.Stat(u.Path("here")); err == nil {
		t.Error("a folder was made")
	}
}
