package aptrepo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/rpmrepo"
)

// rename is a package that has another name in Debian.
type rename struct {
	debian, ubuntu, version string // version is Ubuntu's
	links                   map[string]string
	provides                string // "libelf1": old names that it still provides, with the version
}

// renames returns the packages of Ubuntu 24.04's toolchain that have other names in Debian 12.
func renames() []rename {
	const gcc = "13.3.0-6ubuntu2~24.04"
	return []rename{
		{debian: "gcc-12", ubuntu: "gcc-13", version: gcc, links: map[string]string{"usr/bin/gcc-13": "x86_64-linux-gnu-gcc-12"}},
		{debian: "cpp-12", ubuntu: "cpp-13", version: gcc, links: map[string]string{"usr/bin/cpp-13": "x86_64-linux-gnu-cpp-12"}},
		{debian: "libgcc-12-dev", ubuntu: "libgcc-13-dev", version: gcc},
		{debian: "libelf1", ubuntu: "libelf1t64", version: "0.190-1.1ubuntu0.1", provides: "libelf1"},
	}
}

// wanted returns the packages that apt shall download, by Debian's names; apt adds the dependencies that the
// base lacks.
func wanted() []string { return []string{"gcc-12", "kmod", "libc6-dev", "libelf1", "make"} }

// download fetches the wanted packages that the base lacks, by apt itself, which reads the base's list of
// packages.
func download(ctx context.Context, status, dir string) ([]string, error) {
	out, err := rpmrepo.Run(ctx, "", "apt-get", append([]string{"install", "-qq", "--no-install-recommends", "--print-uris", "-o", "Dir::State::status=" + status}, wanted()...)...)
	if err != nil {
		return nil, fmt.Errorf("ask apt for a toolchain (has apt-get update run?): %w", err)
	}
	names := []string{"download", "-qq"}
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) >= 3 && strings.HasSuffix(words[1], ".deb") {
			parts := strings.Split(words[1], "_")
			names = append(names, parts[0]+"="+strings.ReplaceAll(parts[1], "%3a", ":"))
		}
	}
	if len(names) == 2 {
		return nil, fmt.Errorf("apt would install nothing for %v", wanted())
	}
	if _, err := rpmrepo.Run(ctx, dir, "apt-get", names...); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(dir, "*.deb"))
}

// adopt gives a package Ubuntu's names if they differ: its own, and those of its dependencies. Other packages
// are not changed.
func adopt(ctx context.Context, deb, out string) error {
	name, _, _ := strings.Cut(filepath.Base(deb), "_")
	var r *rename
	for _, candidate := range renames() {
		if candidate.debian == name {
			r = &candidate
		}
	}
	if r == nil {
		return os.Rename(deb, filepath.Join(out, filepath.Base(deb)))
	}
	tree := deb + ".d"
	if _, err := rpmrepo.Run(ctx, "", "dpkg-deb", "-R", deb, tree); err != nil {
		return err
	}
	control := filepath.Join(tree, "DEBIAN", "control")
	text, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	if err := os.WriteFile(control, []byte(r.rewrite(string(text))), 0o644); err != nil {
		return err
	}
	for link, target := range r.links {
		if err := os.Symlink(target, filepath.Join(tree, link)); err != nil {
			return err
		}
	}
	if err := pack(ctx, tree, out); err != nil {
		return err
	}
	return os.RemoveAll(tree)
}

// rewrite changes a control file. Versions that Debian's compiler requires of its own parts become Ubuntu's.
func (r rename) rewrite(control string) string {
	version := regexp.MustCompile(`(?m)^Version: (.*)$`).FindStringSubmatch(control)[1]
	for _, other := range renames() {
		word := regexp.MustCompile(`(^|[\s,|])` + regexp.QuoteMeta(other.debian) + `( \(= ` + regexp.QuoteMeta(version) + `\))?($|[\s,|])`)
		control = word.ReplaceAllStringFunc(control, func(found string) string {
			return strings.ReplaceAll(strings.ReplaceAll(found, other.debian, other.ubuntu), "(= "+version+")", "(= "+other.version+")")
		})
	}
	control = regexp.MustCompile(`(?m)^Version: .*$`).ReplaceAllLiteralString(control, "Version: "+r.version)
	control = regexp.MustCompile(`(?m)^(Provides|Breaks|Conflicts|Replaces|Recommends|Suggests):.*\n( .*\n)*`).ReplaceAllString(control, "")
	if r.provides != "" {
		control = strings.TrimSuffix(control, "\n") + "\nProvides: " + r.provides + " (= " + r.version + ")\nReplaces: " + r.provides + "\nBreaks: " + r.provides + " (<< " + r.version + ")\n"
	}
	return control
}

// pack makes a .deb of a tree, under the name in its control file.
func pack(ctx context.Context, tree, out string) error {
	_, err := rpmrepo.Run(ctx, "", "dpkg-deb", "--root-owner-group", "-Zzstd", "-z1", "--build", tree, out)
	return err
}
