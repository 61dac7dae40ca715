package aptrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/rpmrepo"
)

// kernel is a kernel whose headers are in the repositories.
type kernel struct {
	release  string // "6.8.0-106-generic"
	shared   string // the package with the files that the flavours of a release share
	meta     string // the package that depends on the newest kernel of its kind; "" for older ones
	security bool   // also in noble-security
	old      bool   // in noble, as released
}

// Newest is the kernel that Ubuntu 24.04 installs, of those in the repositories. It is the one whose headers
// are real.
const Newest = "6.8.0-106-generic"

// kernels returns the series and flavours, by their real names.
func kernels() []kernel {
	return []kernel{
		{release: "6.8.0-31-generic", shared: "linux-headers-6.8.0-31", old: true},
		{release: Newest, shared: "linux-headers-6.8.0-106", meta: "linux-headers-generic", security: true},
		{release: "6.8.0-106-lowlatency", shared: "linux-headers-6.8.0-106", meta: "linux-headers-lowlatency"},
		{release: "6.8.0-1052-aws", shared: "linux-aws-headers-6.8.0-1052", meta: "linux-headers-aws", security: true},
		{release: "6.8.0-1050-aws", shared: "linux-aws-headers-6.8.0-1050"},
		{release: "6.14.0-37-generic", shared: "linux-hwe-6.14-headers-6.14.0-37", meta: "linux-headers-generic-hwe-24.04"},
	}
}

// buildKernels packs headers into the folders of suites. Without a Debian kernel, Newest is as empty as the
// others.
func buildKernels(ctx context.Context, k *rpmrepo.Kernel, pool, work string) error {
	made := map[string]bool{}
	for _, u := range kernels() {
		suites := []string{updates}
		if u.old {
			suites = []string{release}
		}
		if u.security {
			suites = append(suites, security)
		}
		version := strings.TrimSuffix(u.release, "-"+u.flavour())
		version += "." + version[strings.LastIndexByte(version, '-')+1:] // 6.8.0-106.106
		packages := []control{
			{name: "linux-headers-" + u.release, version: version, arch: "amd64", depends: u.shared + ", libc6 (>= 2.34), libelf1t64 (>= 0.144)"},
		}
		if !made[u.shared] {
			packages = append(packages, control{name: u.shared, version: version, arch: "all"})
			made[u.shared] = true
		}
		if u.meta != "" {
			packages = append(packages, control{name: u.meta, version: version, arch: "amd64", depends: "linux-headers-" + u.release})
		}
		for _, p := range packages {
			tree := filepath.Join(work, p.name)
			if u.release == Newest && k != nil {
				if err := split(k, p.name, tree); err != nil {
					return fmt.Errorf("headers of %s: %w", u.release, err)
				}
			}
			if err := p.build(ctx, tree, filepath.Join(pool, suites[0])); err != nil {
				return err
			}
			if err := os.RemoveAll(tree); err != nil {
				return err
			}
		}
		for _, suite := range suites[1:] {
			for _, p := range packages {
				file := p.file()
				if err := os.Link(filepath.Join(pool, suites[0], file), filepath.Join(pool, suite, file)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (k kernel) flavour() string { return k.release[strings.LastIndexByte(k.release, '-')+1:] }

// control is a package that consists of its control file.
type control struct{ name, version, arch, depends string }

func (c control) file() string { return c.name + "_" + c.version + "_" + c.arch + ".deb" }

func (c control) build(ctx context.Context, tree, out string) error {
	text := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: tests <tests@builder.example>\nSection: devel\nPriority: optional\n", c.name, c.version, c.arch)
	if c.depends != "" {
		text += "Depends: " + c.depends + "\n"
	}
	text += "Description: " + c.name + " for tests\n"
	if err := rpmrepo.WriteFile(filepath.Join(tree, "DEBIAN", "control"), text); err != nil {
		return err
	}
	return pack(ctx, tree, out)
}

// split fills the tree of one of the two packages that Ubuntu makes of a kernel's headers: the files that all
// flavours share, or one flavour's configuration and programs with links to the shared files.
func split(k *rpmrepo.Kernel, name, tree string) (err error) {
	shared, flavoured := "linux-headers-"+strings.TrimSuffix(Newest, "-generic"), "linux-headers-"+Newest
	if name != shared && name != flavoured {
		return nil // the metapackage
	}
	whole := tree + ".whole"
	defer func() { err = errors.Join(err, os.RemoveAll(whole)) }()
	if err := k.Merge(whole, Newest); err != nil {
		return err
	}
	to := filepath.Join(tree, "usr/src", name)
	links := map[string]bool{}
	err = filepath.WalkDir(whole, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(whole, file)
		if err != nil {
			return err
		}
		if ownOfFlavour(rel) == (name == flavoured) {
			target := filepath.Join(to, rel)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				return err
			}
			return os.Rename(file, target)
		}
		if name == flavoured {
			links[linkFor(rel)] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for link := range links {
		up := strings.Repeat("../", strings.Count(link, "/")+1)
		file := filepath.Join(to, link)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(up+shared+"/"+link, file); err != nil {
			return err
		}
	}
	return nil
}

// ownOfFlavour says whether a file of the tree is in the flavour's package.
func ownOfFlavour(rel string) bool {
	for _, prefix := range []string{".config", "Module.symvers", "include/config/", "include/generated/", "arch/x86/include/generated/", "scripts/", "tools/"} {
		if strings.HasPrefix(rel, prefix) {
			return true
		}
	}
	return false
}

// linkFor returns the link of the flavour's tree through which a shared file is reached: in folders that are
// in both trees, each entry has its own link.
func linkFor(rel string) string {
	for _, folder := range []string{"arch/x86/include/", "arch/x86/", "arch/", "include/"} {
		if rest, found := strings.CutPrefix(rel, folder); found {
			first, _, _ := strings.Cut(rest, "/")
			return folder + first
		}
	}
	first, _, _ := strings.Cut(rel, "/")
	return first
}
