package realrepo

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// spec is one spec file. Each package is a subpackage of it.
type spec struct {
	arch, payload string
	members       []Package
	taken         map[string]bool // names and paths in the spec file
}

// write writes the spec file and the files of its packages into a folder, and returns the path of
// the spec file.
func (s *spec) write(t testing.TB, dir string) string {
	t.Helper()
	tree := testfile.Write(t, filepath.Join(dir, "tree")+"/", "")
	var b strings.Builder
	fmt.Fprintf(&b, "%%define _rpmdir %s\n%%define _binary_payload %s\n", dir, s.payload)
	fmt.Fprintf(
		&b,
		"Name: layer%s\nVersion: 0\nRelease: 0\nSummary: none\nLicense: none\n%%description\nnone\n",
		filepath.Base(dir),
	)
	fmt.Fprintf(&b, "%%install\ncp -a %s/. %%{buildroot}\n", tree)
	for i, p := range s.members {
		// rpmbuild reads a long list only from a file
		list := filepath.Join(dir, fmt.Sprint("files-", i))
		testfile.Write(t, list, p.files(t, tree))
		b.WriteString(
			p.preamble() + "%files -n " + p.Name + " -f " + list + "\n%defattr(-,root,root,-)\n",
		)
	}
	return testfile.Write(t, filepath.Join(dir, "layer.spec"), b.String())
}

// preamble returns the package's part of a spec file.
func (p Package) preamble() string {
	var b strings.Builder
	epoch, version, release := p.evr()
	fmt.Fprintf(
		&b,
		"%%package -n %s\nVersion: %s\nRelease: %s\nSummary: none\n",
		p.Name,
		version,
		release,
	)
	if epoch != "" {
		fmt.Fprintf(&b, "Epoch: %s\n", epoch)
	}
	if p.Arch == "noarch" {
		b.WriteString("BuildArch: noarch\n")
	}
	if !p.Libraries {
		b.WriteString("AutoReqProv: no\n")
	}
	for tag, list := range map[string][]string{
		"Provides": p.Provides, "Requires": p.Requires, "Conflicts": p.Conflicts, "Obsoletes": p.Obsoletes,
		"Recommends": p.Recommends, "Suggests": p.Suggests, "Supplements": p.Supplements, "Enhances": p.Enhances,
	} {
		for _, text := range list {
			fmt.Fprintf(&b, "%s: %s\n", tag, text)
		}
	}
	return b.String() + "%description -n " + p.Name + "\nnone\n"
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
