package depcheck

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
)

// TestSize checks that each package of the product can be read in one sitting. distros/rpm/rpmfile is the one
// exception: it is the format of .rpm files, whole, and a second package would need its unexported parts.
func TestSize(t *testing.T) {
	t.Parallel()
	const maxFiles, maxLines = 20, 2500
	for _, p := range packages(t) {
		if under(p.name(), "ci", "distros/rpm/rpmfile") {
			continue
		}
		lines := 0
		for _, file := range p.GoFiles {
			text := require.Value(os.ReadFile(filepath.Join(p.Dir, file)))(t)
			lines += bytes.Count(text, []byte("\n"))
		}
		if len(p.GoFiles) > maxFiles || lines > maxLines {
			t.Errorf("%s has %d files and %d lines: at most %d and %d", p.name(), len(p.GoFiles), lines, maxFiles, maxLines)
		}
	}
}
