package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestEvictCommand runs the command of the container driver-evict where the program is missing, and
// where it is.
func TestEvictCommand(t *testing.T) {
	t.Parallel()
	text := string(require.Value(os.ReadFile(filepath.Join(project, "ci/cluster/helm/testdata/golden/options.yaml")))(t))
	found := regexp.MustCompile(`name: driver-evict\n(?s:.*?) - sh\n +- -c\n +- \|\n((?: {14}.*\n)+)`).FindStringSubmatch(text)
	if found == nil {
		t.Fatal("the rendered chart has no command of driver-evict")
	}
	program := filepath.Join(t.TempDir(), "driver-evict")
	run := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(found[1], "/usr/bin/driver-evict ]", program+" ]")) //nolint:gosec // the chart's own
		if _, err := os.Stat(program); err == nil {
			cmd.Args[2] = strings.ReplaceAll(cmd.Args[2], "exec /usr/bin/driver-evict", "exec "+program)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, "this image has no /usr/bin/driver-evict") || strings.Count(out, "\n") != 1 {
		t.Errorf("%v: %s", err, out)
	}
	testfile.Write(t, program, "#!/bin/sh\necho it runs\n")
	out, err = run()
	assert.NoError(t, err)
	assert.Equal(t, "it runs\n", out)
}
