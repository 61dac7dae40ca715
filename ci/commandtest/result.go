package commandtest

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
)

// Result is the outcome of a call.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Want checks the exit code and what stderr says.
func (r Result) Want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, p := range parts {
		assert.Containsf(t, r.Stderr, p, "stderr")
	}
}

// Digest is that of the only line on stdout.
func (r Result) Digest(t *testing.T) string {
	t.Helper()
	_, d, ok := strings.Cut(strings.TrimSpace(r.Stdout), "@sha256:")
	if !ok || len(d) != 64 {
		t.Errorf("stdout: %q", r.Stdout)
	}
	return d
}
