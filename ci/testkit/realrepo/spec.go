package realrepo

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// spec is one spec file. Each package is a subpackage of it.
type spec struct {
	arch    string
	members []Package
	taken   map[string]bool // names and paths in the spec file
}

// member is a package in a spec file.
type member struct {
	Package
	Epoch, Version, Release string
	List                    string // file with the list of its files: rpmbuild reads a long one only there
}

// specFile is a spec file.
var specFile = template.Must(template.New("").Parse(`%define _rpmdir {{.Dir}}
%define _binary_payload w1.zstdio
Name: layer{{.Name}}
Version: 0
Release: 0
Summary: none
License: none
%description
none
%install
cp -a {{.Tree}}/. %{buildroot}
{{range .Members}}
%package -n {{.Name}}
Version: {{.Version}}
Release: {{.Release}}
Summary: none
{{with .Epoch}}Epoch: {{.}}{{end}}
{{if eq .Arch "noarch"}}BuildArch: noarch{{end}}
{{if not .Libraries}}AutoReqProv: no{{end}}
{{range .Provides}}Provides: {{.}}
{{end}}{{range .Requires}}Requires: {{.}}
{{end}}{{range .Conflicts}}Conflicts: {{.}}
{{end}}{{range .Obsoletes}}Obsoletes: {{.}}
{{end}}{{range .Weak}}{{.}}
{{end}}
%description -n {{.Name}}
none
%files -n {{.Name}} -f {{.List}}
%defattr(-,root,root,-)
{{end}}`))

// write writes the spec file and the files of its packages into a folder, and returns the path of
// the spec file.
func (s *spec) write(t testing.TB, dir string) string {
	t.Helper()
	tree := testfile.Write(t, filepath.Join(dir, "tree")+"/", "")
	var members []member
	for i, p := range s.members {
		m := member{Package: p, List: filepath.Join(dir, fmt.Sprint("files-", i))}
		m.Epoch, m.Version, m.Release = p.evr()
		testfile.Write(t, m.List, p.files(t, tree))
		members = append(members, m)
	}
	var text strings.Builder
	require.NoError(t, specFile.Execute(&text, map[string]any{
		"Dir": dir, "Name": filepath.Base(dir), "Tree": tree, "Members": members,
	}))
	return testfile.Write(t, filepath.Join(dir, "layer.spec"), text.String())
}

// files creates the package's files in a folder and returns the list of them for the spec file.
func (p Package) files(t testing.TB, tree string) string {
	t.Helper()
	var lines strings.Builder
	for i, path := range p.paths(t) {
		mark := ""
		switch {
		case i < len(p.Files):
			mark = p.Files[i].make(t, tree)
		case strings.HasPrefix(path, "/etc/"):
			mark = "%config(noreplace) "
		case strings.HasPrefix(path, "/usr/share/licenses/"):
			mark = "%license "
		}
		lines.WriteString(mark + `"` + path + "\"\n")
	}
	if p.Tree != "" {
		tool.Must(t, "cp", "-a", p.Tree+"/.", tree)
	}
	return lines.String()
}

// make creates the file in a folder and returns its attributes for a spec file.
func (f File) make(t testing.TB, tree string) string {
	t.Helper()
	path := filepath.Join(tree, f.Path)
	perm := f.Mode & 0o7777
	mark := ""
	switch {
	case f.Mode&fs.ModeSymlink != 0: // rpm accepts no mode for it
		testfile.Write(t, path, "-> "+f.Body)
		return ""
	case f.Mode.IsDir():
		testfile.Write(t, path+"/", "")
		perm = cmp.Or(perm, 0o755)
		mark = "%dir "
	default:
		testfile.WriteMode(t, path, f.Body, 0o644)
		perm = cmp.Or(perm, 0o644)
	}
	if f.Ghost {
		mark += "%ghost "
	}
	if f.Config {
		mark += "%config(noreplace) "
	}
	return mark + fmt.Sprintf("%%attr(%04o, root, root) ", uint32(perm))
}
