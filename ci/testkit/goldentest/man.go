package goldentest

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
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

// What cobra's generator writes: a date without a day, which is none for mandoc, and flags whose
// text begins with a tab and wraps to the margin.
var (
	month  = regexp.MustCompile(`"([A-Z][a-z]{2}) ([0-9]{4})"`)
	option = regexp.MustCompile(`(?m)^(?:\.PP\n)?(\\fB-.*\\fP)(?:\[=false\]|=(?:\[\]|"")?|(.+))\n\t(.*)$`)
)

// pages completes the pages of a command and of those below it. mandoc has no complaint about them,
// where it is installed.
func pages(t *testing.T, dir string, c *cobra.Command) {
	t.Helper()
	page := strings.ReplaceAll(c.CommandPath(), " ", "-")
	file := filepath.Join(dir, page+".1")
	text := string(require.Value(os.ReadFile(file))(t))
	assert.Contains(t, strings.ReplaceAll(text, `\`, ""), page+" - "+c.Short)
	text = month.ReplaceAllString(text, `"$1 1, $2"`)
	text = option.ReplaceAllString(text, ".TP\n$1$2\n$3")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	mandoc, err := exec.LookPath("mandoc")
	if err == nil {
		tool.Must(t, mandoc, "-T", "lint", "-W", "warning", file)
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			pages(t, dir, sub)
		}
	}
}
