package depcheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// systemName is a string that is the name of an operating system, or one with its version, and nothing else.
var systemName = regexp.MustCompile(`^(?:debian|ubuntu|rhel|redhat|centos|rocky|rockylinux|almalinux|fedora|sles?|opensuse|amzn|ol)-?[0-9.]*$`)

// TestSystemsAreData: what differs between systems is data of package distros. Code elsewhere that compares with a
// system's name is where the next system would be forgotten. Comments, messages and field names are not meant, nor is
// the key "debian" of a driver in matrix.yaml, which names a kind of packages.
func TestSystemsAreData(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if under(p.name(), "distros", "ci") {
			continue
		}
		for _, file := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
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
