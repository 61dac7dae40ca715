package status

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestWriteTermination checks the file of the termination message, of which Kubernetes keeps 4096 bytes.
func TestWriteTermination(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "termination-log")
	write := func(path, text string) { WriteTermination(path, errors.New(text), logtest.New(t)) }
	write(file, "x")
	assert.Errorf(t, assert.Err(os.Stat(file)), "outside of Kubernetes nothing is written")
	for _, test := range []struct {
		text string
		size int
	}{{"short", 5}, {strings.Repeat("x", 4096), 4096}, {strings.Repeat("x", 9000), 4096}, {"x" + strings.Repeat("é", 4000), 4095}} {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		write(file, test.text)
		if got, err := os.ReadFile(file); err != nil || len(got) != test.size || !strings.HasPrefix(test.text, string(got)) {
			t.Errorf("%d bytes of %d, %v", len(got), len(test.text), err)
		}
	}
	write("", "x")
	write(t.TempDir(), "x") // a folder cannot be written
}
