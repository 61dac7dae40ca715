package realrepo

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Package describes a package of the rpm family. rpmbuild adds what it always adds (the package's
// own name to its Provides, rpmlib features).
type Package struct {
	Name    string
	Version string // [epoch:]version-release; "" is 1-1
	Arch    string // rpm's name; "" is x86_64
	Files   []File
	Tree    string // a folder: the files and links below it are the package's too, with their modes
	// in the syntax of a spec file: "a >= 1", "(a or b)"
	Provides, Requires, Conflicts, Obsoletes []string
	Weak                                     []string // whole lines: "Recommends: a"
	// rpmbuild adds the libraries that the files are and need
	Libraries bool
}

// File is a file of a package.
type File struct {
	Path string // absolute
	Body string
	// Mode is the type (a regular file, fs.ModeDir or fs.ModeSymlink, then Body is the target) and
	// the permissions as in chmod: 0o1777. Permissions of 0 mean 0644, or 0755 for a folder.
	Mode          fs.FileMode
	Ghost, Config bool
}

// Build makes packages and returns the paths of their .rpm files, in the order of the packages. It
// uses as few runs of rpmbuild as possible: at least one for each architecture.
func Build(t testing.TB, packages ...Package) []string {
	t.Helper()
	top := t.TempDir()
	specs := map[*spec]string{}
	byArch := map[string][]string{}
	out := make([]string, len(packages))
	for i, s := range layers(t, packages) {
		if specs[s] == "" {
			specs[s] = filepath.Join(top, fmt.Sprint(len(specs)))
			byArch[s.arch] = append(byArch[s.arch], s.write(t, specs[s]))
		}
		p := packages[i]
		_, version, release := p.evr()
		out[i] = filepath.Join(
			specs[s],
			fmt.Sprintf("%s-%s-%s.%s.rpm", p.Name, version, release, cmp.Or(p.Arch, "x86_64")),
		)
	}
	for arch, files := range byArch {
		args := []string{"rpmbuild", "-bb", "--quiet", "--nodeps", "--target", arch + "-linux"}
		for _, define := range []string{
			"_topdir " + top, "_dbpath " + top + "/db", "__os_install_post %{nil}", "_build_id_links none", "debug_package %{nil}",
			"_buildhost localhost", "_missing_build_ids_terminate_build 0", "_empty_manifest_terminate_build 0",
			"use_source_date_epoch_as_buildtime 1", "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
		} {
			args = append(args, "--define", define)
		}
		require.Value(
			tool.Run(
				t.Context(),
				"",
				[]string{"SOURCE_DATE_EPOCH=1700000000"},
				append(args, files...)...),
		)(t)
	}
	return out
}

// evr splits the version into the parts that a spec file needs.
func (p Package) evr() (epoch, version, release string) {
	epoch, rest, found := strings.Cut(cmp.Or(p.Version, "1-1"), ":")
	if !found {
		epoch, rest = "", epoch
	}
	i := strings.LastIndexByte(rest, '-')
	return epoch, rest[:i], rest[i+1:]
}

// layers distributes packages over as few spec files as possible: within one, each name and each
// path may occur only once, and all packages have the same architecture.
func layers(t testing.TB, packages []Package) []*spec {
	t.Helper()
	var all, of []*spec
	for _, p := range packages {
		arch := cmp.Or(p.Arch, "x86_64")
		names := append(p.paths(t), p.Name)
		i := slices.IndexFunc(all, func(s *spec) bool {
			same := arch == "noarch" || arch == s.arch
			return same && !slices.ContainsFunc(names, func(n string) bool { return s.taken[n] })
		})
		if i < 0 {
			if arch == "noarch" {
				arch = "x86_64"
			}
			i = len(all)
			all = append(all, &spec{arch: arch, taken: map[string]bool{}})
		}
		s := all[i]
		s.members = append(s.members, p)
		of = append(of, s)
		for _, name := range names {
			s.taken[name] = true
		}
	}
	return of
}

// paths returns the paths of the package's files.
func (p Package) paths(t testing.TB) (all []string) {
	t.Helper()
	for _, f := range p.Files {
		all = append(all, f.Path)
	}
	if p.Tree == "" {
		return all
	}
	require.NoError(t, filepath.WalkDir(p.Tree, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all = append(all, strings.TrimPrefix(name, p.Tree))
		return nil
	}))
	return all
}

// Root is a system in a folder.
type Root struct{ Dir string }

// NewRoot makes a system with an empty database, in SQLite's format: Debian's rpm can write no
// other.
func NewRoot(t testing.TB) *Root {
	t.Helper()
	r := &Root{Dir: t.TempDir()}
	require.NoError(t, os.MkdirAll(filepath.Join(r.Dir, "var/lib/rpm"), 0o755))
	r.RPM(t, "--initdb")
	return r
}

// RPM runs rpm on the system and returns its output.
func (r *Root) RPM(t testing.TB, args ...string) string {
	t.Helper()
	fixed := []string{
		"rpm",
		"--root",
		r.Dir,
		"--define",
		"_db_backend sqlite",
		"--define",
		"_dbpath /var/lib/rpm",
		"--nosignature",
	}
	return tool.Must(t, append(fixed, args...)...)
}

// Install installs packages without checking their dependencies and without their scripts. It needs
// root, because rpm calls chroot.
func (r *Root) Install(t testing.TB, packages ...string) {
	t.Helper()
	if len(packages) > 0 {
		r.RPM(
			t,
			append(
				[]string{
					"-i",
					"--force-debian",
					"--nodeps",
					"--noscripts",
					"--notriggers",
					"--nodigest",
				},
				packages...)...)
	}
}

// Installed returns the packages as "name-[epoch:]version-release.arch", like rpm -qa, without the
// keys.
func (r *Root) Installed(t testing.TB) []string {
	t.Helper()
	list := strings.Fields(
		r.RPM(t, "-qa", "--qf", `%{name}-%|epoch?{%{epoch}:}|%{version}-%{release}.%{arch}\n`),
	)
	return slices.DeleteFunc(
		list,
		func(name string) bool { return strings.HasPrefix(name, "gpg-pubkey-") },
	)
}
