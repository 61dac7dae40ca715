package lint

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const (
	root     = "../.."
	document = "docs/security.md"
)

// bound is one row of a table of the document.
type bound struct {
	section string
	line    int
}

var row = regexp.MustCompile("^\\| .* \\| [^|]+ \\| `([a-z0-9/]+\\.[A-Za-z]+)` \\|")

// documented returns the rows of the document by constant: "images/rootfs.maxEntries".
func documented(t *testing.T) map[string]bound {
	t.Helper()
	all, section, n := map[string]bound{}, "", 0
	for line := range strings.Lines(testfile.Read(t, path.Join(root, document))) {
		n++
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if other, twice := all[m[1]]; twice {
			t.Errorf("%s:%d: %s is in line %d too", document, n, m[1], other.line)
		}
		all[m[1]] = bound{section, n}
	}
	return all
}
