package main

import (
	"strings"
	"testing"
)

// TestExitCodes: a machine without GPU gets one line and an exit code of its own.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		part string
	}{
		{[]string{"-root", t.TempDir()}, 3, "has no NVIDIA GPU with a loaded driver"},
		{[]string{"-root", t.TempDir(), "more"}, 2, `takes no arguments, but got ["more"]`},
		{[]string{"-reset"}, 2, "flag provided but not defined"},
		{[]string{"-help"}, 0, "-programs"},
	} {
		var stdout, stderr strings.Builder
		code := run(t.Context(), c.args, &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.part) || stdout.Len() > 0 {
			t.Errorf("%q: %d, %q, %q", c.args, code, stdout.String(), stderr.String())
		}
		if c.code == 3 && strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("not one line: %q", stderr.String())
		}
	}
}
