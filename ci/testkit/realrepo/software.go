package realrepo

import (
	_ "embed" // the list of packages
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// product is an rpm package made of Debian packages.
type product struct {
	Name     string
	Debs     []string          // the first one has the version
	Base     bool              // installed in bases
	Needs    []string          // required in addition to the libraries of its programs
	Provides []string          // in addition to its name, its files and its libraries
	Links    map[string]string // in addition to Debian's, such as those that alternatives would make
	Ghosts   []string          // files that are not in the package
	Plain    bool              // rpm looks for no dependencies in it
}

//go:embed rocky9.yaml
var rocky9 []byte

// catalogue returns the products of rocky9.yaml.
func catalogue(t testing.TB) (all []product) {
	t.Helper()
	require.NoError(t, yaml.Load(rocky9, &all, yaml.WithKnownFields()))
	return all
}

// files returns the links and ghosts, which are in none of the Debian packages.
func (p product) files() (all []File) {
	for path, target := range p.Links {
		all = append(all, File{Path: path, Body: target, Mode: fs.ModeSymlink})
	}
	for _, path := range p.Ghosts {
		all = append(all, File{Path: path, Ghost: true})
	}
	return all
}

// contents returns the folder of the unpacked Debian packages: a folder for each product.
func contents(t testing.TB, debs []deb) string {
	t.Helper()
	return keep(
		t,
		"contents",
		[]string{recipe, string(rocky9), fmt.Sprint(debs, unused, unpackScript)},
		func(dir string) {
			files := t.TempDir()
			download(t, debs, files)
			for _, p := range catalogue(t) {
				tree := testfile.Write(t, filepath.Join(dir, p.Name)+"/", "")
				for _, d := range debs {
					if slices.Contains(p.Debs, d.name) {
						file := filepath.Join(files, d.file)
						tool.Must(t, "sh", "-ec", unpackScript, "sh", file, tree, unused)
					}
				}
			}
		},
	)
}

// software returns the packages of the catalogue: those of the base, and others.
func software(t testing.TB, debs []deb) (base, more []Package) {
	t.Helper()
	trees := contents(t, debs)
	for _, c := range catalogue(t) {
		i := slices.IndexFunc(debs, func(d deb) bool { return d.name == c.Debs[0] })
		p := Package{
			Name: c.Name, Version: versionOf(debs[i].version) + dist,
			Libraries: !c.Plain, Tree: filepath.Join(trees, c.Name), Files: c.files(),
		}
		own := strings.NewReplacer("%{EVR}", p.Version)
		for _, provided := range c.Provides {
			p.Provides = append(p.Provides, own.Replace(provided))
		}
		for _, need := range c.Needs {
			p.Requires = append(p.Requires, own.Replace(need))
		}
		if c.Base {
			base = append(base, p)
		} else {
			more = append(more, p)
		}
	}
	return base, more
}

// versionOf returns Debian's version, [epoch:]upstream-revision, with the characters that rpm
// allows.
func versionOf(debian string) string {
	version := debian
	release := "1"
	if i := strings.LastIndexByte(debian, '-'); i >= 0 {
		version = debian[:i]
		release = debian[i+1:]
	}
	clean := strings.NewReplacer("-", ".", "+", ".")
	return clean.Replace(version) + "-" + clean.Replace(release)
}
