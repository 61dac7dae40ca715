package commandtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// Result is the outcome of a call.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Want checks the exit code and what stderr says, and returns the result.
func (r Result) Want(t *testing.T, code int, parts ...string) Result {
	t.Helper()
	if r.Code != code {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", r.Code, code, r.Stdout, r.Stderr)
	}
	for _, p := range parts {
		assert.Containsf(t, r.Stderr, p, "stderr")
	}
	return r
}

// Digest is that of every line on stdout: an image has a line for each of its tags.
func (r Result) Digest(t *testing.T) (digest string) {
	t.Helper()
	for line := range strings.Lines(r.Stdout) {
		_, d, ok := strings.Cut(strings.TrimSpace(line), "@sha256:")
		if !ok || len(d) != 64 || digest != "" && d != digest {
			t.Errorf("stdout: %q", r.Stdout)
		}
		digest = d
	}
	if digest == "" {
		t.Errorf("there is no image on stdout; stderr: %s", r.Stderr)
	}
	return digest
}

// Items checks that stdout is a list as a schema of docs/schema says, and returns its items.
func Items[T any](t *testing.T, r Result, schema string) []T {
	t.Helper()
	goldentest.Schema(t, schema, r.Stdout)
	var list session.List[T]
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &list))
	return list.Items
}
