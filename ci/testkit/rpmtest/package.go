package rpmtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Package describes a package. rpmbuild adds what it always adds (the package's own name to its Provides,
// rpmlib features) and nothing else: it does not search the files for dependencies.
type Package struct {
	Name    string
	Version string // [epoch:]version-release; "" is 1-1
	Arch    string // rpm's name; "" is x86_64
	Files   []File
	// Payload is compression and level in rpm's notation, "w19.zstdio", "w6.xzdio", "w6.lzdio", "w9.bzdio"; ""
	// is "w9.gzdio".
	Payload string

	Provides, Requires, Conflicts, Obsoletes    []string // in the syntax of a spec file: "a >= 1", "(a or b)"
	Recommends, Suggests, Supplements, Enhances []string
	Post                                        string // a scriptlet that sh runs after installation
}

// File is a file of a package.
type File struct {
	Path string // absolute
	Body string
	// Mode is the permissions and the type: a regular file, fs.ModeDir or fs.ModeSymlink (then Body is the
	// target), with fs.ModeSetuid and similar bits. Permissions of 0 mean 0644, or 0755 for a folder.
	Mode          fs.FileMode
	Hard          string // path of an earlier file of the same package that this one is a hard link to
	Caps          string // "cap_net_raw=ep"
	Owner, Group  string // "" is root
	Ghost, Config bool
}

// Build makes packages and returns the paths of their .rpm files, in the order of the packages. It uses as
// few runs of rpmbuild as possible: at least one for each architecture.
func Build(t testing.TB, packages ...Package) []string {
	t.Helper()
	top := t.TempDir()
	out := make([]string, len(packages))
	specs := layers(packages)
	byArch := map[string][]string{}
	for i, s := range specs {
		s.dir = filepath.Join(top, fmt.Sprint(i))
		byArch[s.arch] = append(byArch[s.arch], s.write(t, packages))
	}
	for _, arch := range []string{"x86_64", "i686", "aarch64", "ppc64le", "s390x"} {
		if len(byArch[arch]) == 0 {
			continue
		}
		args := []string{
			"rpmbuild", "-bb", "--quiet", "--nodeps", "--target", arch + "-linux", "--define", "_topdir " + top, "--define", "_dbpath " + top + "/db",
			"--define", "__os_install_post %{nil}", "--define", "_build_id_links none", "--define", "debug_package %{nil}",
			"--define", "_buildhost localhost", "--define", "use_source_date_epoch_as_buildtime 1",
			"--define", "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
		}
		require.Value(tool.Run(t.Context(), "", []string{"SOURCE_DATE_EPOCH=1700000000"}, append(args, byArch[arch]...)...))(t)
	}
	for _, s := range specs {
		for _, i := range s.members {
			p := packages[i].filled()
			_, version, release := p.evr()
			out[i] = filepath.Join(s.dir, fmt.Sprintf("%s-%s-%s.%s.rpm", p.Name, version, release, p.Arch))
			if _, err := os.Stat(out[i]); err != nil {
				t.Fatalf("rpmbuild did not make %s %s: %v", p.Name, p.Version, err)
			}
		}
	}
	return out
}

func (p Package) filled() Package {
	if p.Version == "" {
		p.Version = "1-1"
	}
	if p.Arch == "" {
		p.Arch = "x86_64"
	}
	if p.Payload == "" {
		p.Payload = "w9.gzdio"
	}
	return p
}

// evr splits the version into the parts that a spec file needs.
func (p Package) evr() (epoch, version, release string) {
	epoch, rest, ok := strings.Cut(p.Version, ":")
	if !ok {
		epoch, rest = "", p.Version
	}
	i := strings.LastIndexByte(rest, '-')
	if i < 0 {
		return epoch, rest, "1"
	}
	return epoch, rest[:i], rest[i+1:]
}

// layers distributes packages over as few spec files as possible: within one, each name and each path may
// occur only once, and all packages have the same architecture and payload.
func layers(packages []Package) []*spec {
	var out []*spec
	for i := range packages {
		p := packages[i].filled()
		var found *spec
		for _, s := range out {
			if s.takes(p) {
				found = s
				break
			}
		}
		if found == nil {
			arch := p.Arch
			if arch == "noarch" {
				arch = "x86_64"
			}
			found = &spec{arch: arch, payload: p.Payload, taken: map[string]bool{}}
			out = append(out, found)
		}
		found.members = append(found.members, i)
		found.taken[p.Name] = true
		for _, f := range p.Files {
			found.taken[f.Path] = true
		}
	}
	return out
}
