package lint

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const (
	root     = "../.."
	document = "docs/security.md"
)

// bound is one row of a table of the document.
type bound struct {
	section, value string
	line           int
}

var row = regexp.MustCompile("^\\| .* \\| ([^|]+) \\| `([a-z0-9/]+\\.[A-Za-z]+)` \\|")

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
		if other, twice := all[m[2]]; twice {
			t.Errorf("%s:%d: %s is in line %d too", document, n, m[2], other.line)
		}
		all[m[2]] = bound{section, strings.TrimSpace(m[1]), n}
	}
	return all
}

// declared returns the integer constants of a package whose names begin with max, by name.
func declared(t *testing.T, pkg string) map[string]int64 {
	t.Helper()
	fset := token.NewFileSet()
	files, err := fs.Glob(os.DirFS(root), pkg+"/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", pkg, err)
	}
	all := map[string]int64{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := require.Value(parser.ParseFile(fset, path.Join(root, name), nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			d, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, ident := range d.Names {
				if i >= len(d.Values) || !strings.HasPrefix(strings.ToLower(ident.Name), "max") {
					continue
				}
				// A value with other names in it, such as a duration, is no number of things or bytes.
				v, err := types.Eval(fset, nil, token.NoPos, types.ExprString(d.Values[i]))
				if err != nil || v.Value == nil {
					continue
				}
				if number, exact := constant.Int64Val(constant.ToInt(v.Value)); exact {
					all[ident.Name] = number
				}
			}
			return true
		})
	}
	return all
}

// spelled returns a number as the document writes it: "4 GiB" if it is so many, "20,000" or "1,048,576".
func spelled(n int64) []string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	all := []string{digits}
	for shift, unit := range map[int]string{10: "KiB", 20: "MiB", 30: "GiB"} {
		if n>>shift<<shift == n && n>>shift > 0 && n>>shift < 1<<10 {
			all = append(all, fmt.Sprintf("%d %s", n>>shift, unit))
		}
	}
	return all
}

// TestDocument compares the bounds of the document with the constants in the code.
func TestDocument(t *testing.T) {
	t.Parallel()
	table := documented(t)
	for key, b := range table {
		pkg, name, _ := strings.Cut(key, ".")
		switch value, ok := declared(t, pkg)[name]; {
		case !ok:
			t.Errorf("%s:%d: there is no constant %s", document, b.line, key)
		case !slices.Contains(spelled(value), b.value):
			t.Errorf("%s:%d: %s is %s in the document, %v in the code", document, b.line, key, b.value, spelled(value))
		}
	}
	if len(table) < 40 {
		t.Errorf("%s has only %d bounds", document, len(table))
	}
}
