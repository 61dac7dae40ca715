package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"LICENSE": "text", "copyright": "text"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	out := filepath.Join(t.TempDir(), "x.run")
	var stdout, stderr strings.Builder
	err := run(t.Context(), []string{"--tree", dir, "--version", "1.2", "--compression", "gzip", "--output", out}, &stdout, &stderr)
	if err != nil || stdout.String() != out+"\n" || !strings.Contains(stderr.String(), "left out: copyright") {
		t.Errorf("error %v, stdout %q, stderr %q", err, stdout.String(), stderr.String())
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{}, {"--tree", dir}, {"--tree", dir, "--version", "1", "more"}, {"--tree", dir + "/no", "--version", "1"}, {"--what"}} {
		assert.Errorf(t, run(t.Context(), args, &stdout, &stderr), "%v succeeded", args)
	}
}
