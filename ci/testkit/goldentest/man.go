package goldentest

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/version"
)

// Man makes a manual page of each command, in the folder that DRIVER_MAN_DIR names or in a
// temporary one, and looks whether each page names its command. SOURCE_DATE_EPOCH is the date of
// the pages. A test makes them, because a program on a node needs no generator of pages.
func Man(t *testing.T, root *cobra.Command) {
	t.Helper()
	dir := cmp.Or(os.Getenv("DRIVER_MAN_DIR"), t.TempDir())
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{
		Section: "1",
		Source:  "driver-container " + version.Tree,
		Manual:  "NVIDIA driver images",
	}
	require.NoError(t, doc.GenManTree(root, header, dir))
	pages(t, dir, root)
}

func pages(t *testing.T, dir string, c *cobra.Command) {
	t.Helper()
	page := strings.ReplaceAll(c.CommandPath(), " ", "-")
	text := require.Value(os.ReadFile(filepath.Join(dir, page+".1")))(t)
	assert.Contains(t, strings.ReplaceAll(string(text), `\`, ""), page+" - "+c.Short)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			pages(t, dir, sub)
		}
	}
}
