package depcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
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

// TestPackageNames checks that no two packages have one name, so that a name in an import, a log or a
// question means one of them. Programs are called main.
func TestPackageNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, p := range packages(t) {
		name := path.Base(p.name())
		if other, ok := seen[name]; ok && name != "." {
			t.Errorf("%s and %s have the name %s", p.name(), other, name)
		}
		seen[name] = p.name()
	}
}
