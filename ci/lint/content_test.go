package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// systemName matches a string that consists of the name of an operating system, with or without its version.
var systemName = regexp.MustCompile(`^(?:debian|ubuntu|rhel|redhat|centos|rocky|rockylinux|almalinux|fedora|sles?|opensuse|amzn|ol)-?[0-9.]*$`)

// TestSystemsAreData: differences between systems are data of package distros. Code elsewhere that compares
// with a system's name would be forgotten when the next system is added. The rule does not apply to comments,
// messages and field names, nor to the key "debian" of a driver in matrix.yaml, which names a kind of
// packages.
func TestSystemsAreData(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if under(p.name(), "distros", "ci") {
			continue
		}
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			f := require.Value(parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution))(t)
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ImportSpec, *ast.Field: // import paths and struct tags
					return false
				case *ast.BasicLit:
					s, err := strconv.Unquote(n.Value)
					if key := p.name() == "images/matrix" && s == "debian"; err == nil && !key && n.Kind == token.STRING && systemName.MatchString(s) {
						t.Errorf("%s: %s is the name of a system: make it data of package distros", fset.Position(n.Pos()), n.Value)
					}
				}
				return true
			})
		}
	}
}

// TestSize checks that each package of the product can be read in one sitting.
func TestSize(t *testing.T) {
	t.Parallel()
	const maxFiles, maxLines = 30, 3500
	for _, p := range packages(t) {
		if under(p.name(), "ci") {
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
