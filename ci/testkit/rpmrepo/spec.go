package rpmrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// piece is an rpm package to be built, as a spec file describes it.
type piece struct {
	name, epoch, version, release string
	noarch                        bool
	requires, provides, obsoletes []string
	automatic                     bool     // rpm itself finds the libraries
	files                         []string // lines of %files
}

// evr returns [epoch:]version-release.
func (p piece) evr() string {
	if p.epoch != "" {
		return p.epoch + ":" + p.version + "-" + p.release
	}
	return p.version + "-" + p.release
}

// text returns the piece's part of a spec file; the list of files is a file beside the spec.
func (p piece) text(list string) string {
	var b strings.Builder
	line := func(tag, value string) { fmt.Fprintf(&b, "%s: %s\n", tag, value) }
	fmt.Fprintf(&b, "%%package -n %s\n", p.name)
	if p.epoch != "" {
		line("Epoch", p.epoch)
	}
	line("Version", p.version)
	line("Release", p.release)
	line("Summary", p.name+" as Debian compiles it")
	line("License", "as in Debian")
	if p.noarch {
		line("BuildArch", "noarch")
	}
	if p.automatic {
		line("AutoReqProv", "yes")
	} else {
		line("AutoReqProv", "no")
	}
	for _, r := range p.requires {
		line("Requires", strings.ReplaceAll(r, "%{EVR}", p.evr()))
	}
	for _, r := range p.provides {
		line("Provides", strings.ReplaceAll(r, "%{EVR}", p.evr()))
	}
	for _, r := range p.obsoletes {
		line("Obsoletes", r)
	}
	fmt.Fprintf(&b, "%%description -n %s\nRepackaged for tests.\n%%files -n %s -f %s\n%%defattr(-,root,root,-)\n\n", p.name, p.name, list)
	return b.String()
}

// rpmbuild packs pieces, whose files are in root, into out. It neither strips nor changes files.
func rpmbuild(ctx context.Context, sys system, pieces []piece, root, out string) (err error) {
	work, err := os.MkdirTemp(out, ".rpmbuild-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	var spec strings.Builder
	spec.WriteString("%global debug_package %{nil}\n%global __os_install_post %{nil}\n%global __spec_install_pre %{___build_pre}\n" +
		"Name: repackaged\nVersion: 1\nRelease: 1\nSummary: nothing\nLicense: none\n%description\nNot built.\n%install\n\n")
	for i, p := range pieces {
		list := filepath.Join(work, fmt.Sprintf("files-%d", i))
		if err := os.WriteFile(list, []byte(strings.Join(p.files, "\n")+"\n"), 0o644); err != nil {
			return err
		}
		spec.WriteString(p.text(list))
	}
	file := filepath.Join(work, "repackaged.spec")
	if err := os.WriteFile(file, []byte(spec.String()), 0o644); err != nil {
		return err
	}
	args := []string{"-bb", "--quiet", "--noclean", "--nocheck", "--target", "x86_64", "--buildroot", root}
	for _, d := range []string{
		"_topdir " + work, "_rpmdir " + out, "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm", "_binary_payload " + sys.payload,
		"_buildhost builder.example", "use_source_date_epoch_as_buildtime 1", "_build_id_links none", "_unpackaged_files_terminate_build 0",
		"_binaries_in_noarch_packages_terminate_build 0", "_missing_build_ids_terminate_build 0", "__check_files %{nil}", "vendor tests", "dist " + sys.dist,
	} {
		args = append(args, "--define", d)
	}
	if _, err := Run(ctx, work, "rpmbuild", append(args, file)...); err != nil {
		return fmt.Errorf("build %d packages for %s: %w", len(pieces), sys.id, err)
	}
	return nil
}

// fileLines returns the lines of %files for everything in a tree except folders.
func fileLines(tree string) ([]string, error) {
	var lines []string
	err := filepath.WalkDir(tree, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(tree, name)
		if err != nil {
			return err
		}
		mark := ""
		switch {
		case strings.HasPrefix(rel, "etc/") && d.Type().IsRegular():
			mark = "%config(noreplace) "
		case strings.HasPrefix(rel, "usr/share/licenses/"):
			mark = "%license "
		}
		lines = append(lines, mark+`"/`+rel+`"`)
		return nil
	})
	return lines, err
}

// versionOf splits Debian's version: [epoch:]upstream-revision, with the characters that rpm allows.
func versionOf(debian, dist string) (epoch, version, release string) {
	if before, after, found := strings.Cut(debian, ":"); found {
		epoch, debian = before, after
	}
	version, release = debian, "1"
	if i := strings.LastIndexByte(debian, '-'); i >= 0 {
		version, release = debian[:i], debian[i+1:]
	}
	clean := strings.NewReplacer("-", ".", "+", ".")
	return epoch, clean.Replace(version), clean.Replace(release) + dist
}
