package rpmtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// spec is one spec file. Each package is a subpackage of it.
type spec struct {
	dir           string
	arch, payload string
	members       []int
	taken         map[string]bool // names and paths in the spec file
}

func (s *spec) takes(p Package) bool {
	if s.payload != p.Payload || p.Arch != "noarch" && p.Arch != s.arch || s.taken[p.Name] {
		return false
	}
	for _, f := range p.Files {
		if s.taken[f.Path] {
			return false
		}
	}
	return true
}

// write writes the spec file and the files of its packages, and returns the path of the spec file.
func (s *spec) write(t testing.TB, packages []Package) string {
	t.Helper()
	tree := filepath.Join(s.dir, "tree")
	require.NoError(t, os.MkdirAll(tree, 0o755))
	var b strings.Builder
	fmt.Fprintf(&b, "%%define _rpmdir %s\n%%define _binary_payload %s\n", s.dir, s.payload)
	fmt.Fprintf(&b, "Name: layer%s\nVersion: 0\nRelease: 0\nSummary: none\nLicense: none\n%%description\nnone\n", filepath.Base(s.dir))
	fmt.Fprintf(&b, "%%install\ncp -a %s/. %%{buildroot}\n", tree)
	for _, i := range s.members {
		packages[i].filled().spec(&b)
	}
	for _, i := range s.members {
		p := packages[i]
		fmt.Fprintf(&b, "%%files -n %s\n", p.Name)
		for _, f := range p.Files {
			require.NoError(t, f.make(tree))
			b.WriteString(f.line())
		}
		if p.Post != "" {
			fmt.Fprintf(&b, "%%post -n %s -p /bin/sh\n%s\n", p.Name, p.Post)
		}
	}
	path := filepath.Join(s.dir, "layer.spec")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

func (p Package) spec(b *strings.Builder) {
	epoch, version, release := p.evr()
	fmt.Fprintf(b, "%%package -n %s\nVersion: %s\nRelease: %s\nSummary: none\nAutoReqProv: no\n", p.Name, version, release)
	if epoch != "" {
		fmt.Fprintf(b, "Epoch: %s\n", epoch)
	}
	if p.Arch == "noarch" {
		b.WriteString("BuildArch: noarch\n")
	}
	for _, tag := range []struct {
		name string
		list []string
	}{
		{"Provides", p.Provides},
		{"Requires", p.Requires},
		{"Conflicts", p.Conflicts},
		{"Obsoletes", p.Obsoletes},
		{"Recommends", p.Recommends},
		{"Suggests", p.Suggests},
		{"Supplements", p.Supplements},
		{"Enhances", p.Enhances},
	} {
		for _, text := range tag.list {
			fmt.Fprintf(b, "%s: %s\n", tag.name, text)
		}
	}
	fmt.Fprintf(b, "%%description -n %s\nnone\n", p.Name)
}

// make creates a file in the tree.
func (f File) make(tree string) error {
	path := filepath.Join(tree, f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch {
	case f.Hard != "":
		return os.Link(filepath.Join(tree, f.Hard), path)
	case f.Mode&fs.ModeSymlink != 0:
		return os.Symlink(f.Body, path)
	case f.Mode.IsDir():
		return os.MkdirAll(path, 0o755)
	}
	return os.WriteFile(path, []byte(f.Body), 0o644)
}

// line returns the entry for the file in a spec file's list of files.
func (f File) line() string {
	owner, group := f.Owner, f.Group
	if owner == "" {
		owner = "root"
	}
	if group == "" {
		group = "root"
	}
	mode := "-" // unchanged: rpm accepts no mode for a symbolic link
	if f.Mode&fs.ModeSymlink == 0 {
		mode = fmt.Sprintf("%04o", f.bits())
	}
	words := []string{fmt.Sprintf("%%attr(%s, %s, %s)", mode, owner, group)}
	if f.Caps != "" {
		words = append(words, "%caps("+f.Caps+")")
	}
	for _, w := range []struct {
		is   bool
		word string
	}{{f.Mode.IsDir(), "%dir"}, {f.Ghost, "%ghost"}, {f.Config, "%config(noreplace)"}} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return strings.Join(append(words, f.Path), " ") + "\n"
}

// bits returns the permissions in the form of chmod.
func (f File) bits() uint32 {
	perm := uint32(f.Mode.Perm())
	switch {
	case perm == 0 && f.Mode.IsDir():
		perm = 0o755
	case perm == 0:
		perm = 0o644
	}
	for bit, value := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if f.Mode&bit != 0 {
			perm |= value
		}
	}
	return perm
}
