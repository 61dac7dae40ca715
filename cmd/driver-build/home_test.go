package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
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

func TestMemoryLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data, space uint64
		says        string
	}{
		{512 << 20, 2 << 30, ""},
		{512<<20 - 1, ^uint64(0), "511 MiB of memory (ulimit -d), but needs up to 512 MiB: raise the limit with ulimit -d 524288"},
		{^uint64(0), 1 << 30, "1024 MiB of memory (ulimit -v)"},
	} {
		err := checkMemory(func(resource int, l *syscall.Rlimit) error {
			l.Cur = map[int]uint64{syscall.RLIMIT_DATA: c.data, syscall.RLIMIT_AS: c.space}[resource]
			return nil
		})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("data %d, address space %d: %v; want %q", c.data, c.space, err, c.says)
		}
	}
}
