package rpmrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Kernel is a Debian kernel whose headers become a kernel-devel package.
type Kernel struct {
	// Root has the unpacked packages linux-headers-RELEASE, -common and linux-kbuild, like ci/lab's kernels.
	Root string
	// Release is Debian's: "6.1.0-56-amd64".
	Release string
}

// stubVersion and stubNumber are of the newest kernel if no kernel is given.
const (
	stubVersion = "6.1.0"
	stubNumber  = 9
)

var debianRelease = regexp.MustCompile(`^([0-9]+\.[0-9]+\.[0-9]+)-([0-9]+)-amd64$`)

// ReleaseIn returns the kernel's release in a system: "6.1.0-56.el9_4.x86_64" in rocky9,
// "6.1.0-150600.56-default" in opensuse-leap15.6. Debian's own name has one hyphen more than rpm allows in a
// version.
func (k Kernel) ReleaseIn(id string) (string, error) {
	sys, err := lookup(id)
	if err != nil {
		return "", err
	}
	m := debianRelease.FindStringSubmatch(k.Release)
	if m == nil {
		return "", fmt.Errorf("%q is no release of a Debian kernel for amd64, such as 6.1.0-56-amd64", k.Release)
	}
	return sys.uname(m[1], sys.build(m[2]), ""), nil
}

// build returns a kernel package's release for a number that counts them.
func (s system) build(number string) string {
	switch {
	case s.suse:
		return strings.TrimPrefix(s.dist, ".") + "." + number
	case strings.HasPrefix(s.dist, ".el") && !s.oldSigns && !s.stream:
		return number + s.dist + "_" + s.version[strings.IndexByte(s.version, '.')+1:]
	}
	return number + s.dist
}

// uname returns the release of a kernel whose package has this version and release. flavour is "" or, as in
// RHEL, "rt".
func (s system) uname(version, release, flavour string) string {
	switch {
	case s.azure:
		return version + "-" + release
	case s.suse && flavour != "":
		return version + "-" + release + "-" + flavour
	case s.suse:
		return version + "-" + release + "-default"
	case flavour != "":
		return version + "-" + release + ".x86_64+" + flavour
	}
	return version + "-" + release + ".x86_64"
}

// develPiece describes the package of a kernel's headers, and returns the folder of the headers.
func (s system) develPiece(version, release, flavour string) (piece, string) {
	uname := s.uname(version, release, flavour)
	p := piece{name: "kernel-devel", version: version, release: release, requires: []string{"/usr/bin/bash", "make", "findutils"}}
	if s.suse {
		name := "default"
		if flavour != "" {
			name = flavour
		}
		p.name, p.release = "kernel-"+name+"-devel", release+".1" // a rebuild of the same source
		p.provides = []string{"multiversion(kernel)", p.name + " = " + version + "-" + release}
		return p, "usr/src/linux-" + version + "-" + release + "-obj/x86_64/" + name
	}
	if flavour != "" {
		p.name = "kernel-" + flavour + "-devel"
	}
	if s.azure {
		p.requires = []string{strings.TrimSuffix(p.name, "-devel") + " = %{EVR}", "gawk"}
		return p, "usr/src/linux-headers-" + uname
	}
	p.requires = append(p.requires, "gcc", "elfutils-libelf-devel", "perl-interpreter")
	p.provides = []string{"kernel-devel-x86_64 = %{EVR}", "installonlypkg(kernel)", "kernel-devel-uname-r = " + uname}
	if p.name != "kernel-devel" {
		p.provides = append(p.provides, "kernel-devel = %{EVR}")
	}
	return p, "usr/src/kernels/" + uname
}

// buildKernels packs the headers of the kernel, if one is given, and of two kernels with only a Makefile: an
// older one, and one of another flavour.
func buildKernels(ctx context.Context, sys system, k *Kernel, out string) (err error) {
	version, number := stubVersion, stubNumber
	if k != nil {
		m := debianRelease.FindStringSubmatch(k.Release)
		if m == nil {
			return fmt.Errorf("%q is no release of a Debian kernel for amd64, such as 6.1.0-56-amd64", k.Release)
		}
		version = m[1]
		if _, err := fmt.Sscan(m[2], &number); err != nil {
			return err
		}
	}
	root, err := os.MkdirTemp(out, ".root-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	var pieces []piece
	add := func(version, release, flavour string, fill func(tree, uname string) error) error {
		p, place := sys.develPiece(version, release, flavour)
		tree := filepath.Join(root, place)
		if err := os.MkdirAll(tree, 0o755); err != nil {
			return err
		}
		if err := fill(tree, sys.uname(version, release, flavour)); err != nil {
			return err
		}
		lines, err := fileLines(tree)
		for _, line := range lines {
			p.files = append(p.files, strings.Replace(line, `"/`, `"/`+place+"/", 1))
		}
		pieces = append(pieces, p)
		if sys.azure { // the package that the headers require
			pieces = append(pieces, piece{name: strings.TrimSuffix(p.name, "-devel"), version: version, release: release, requires: []string{"filesystem", "kmod"}})
		}
		return err
	}
	stub := func(tree, uname string) error {
		return WriteFile(filepath.Join(tree, "include/config/kernel.release"), uname+"\n")
	}
	newest := stub
	if k != nil {
		newest = k.Merge
	}
	if err := add(version, sys.build(strconv.Itoa(number)), "", newest); err != nil {
		return fmt.Errorf("headers of the newest kernel: %w", err)
	}
	// Packages of one build have names of their own, so the older kernel is a separate build.
	flavour, flavoured := "rt", version
	switch {
	case sys.suse:
		flavour = "azure"
	case sys.azure: // a later series, whose release has no flavour
		flavour, flavoured = "hwe", "6.12.57.1"
	}
	if err := add(flavoured, sys.build(strconv.Itoa(number)), flavour, stub); err != nil {
		return err
	}
	dir := filepath.Join(out, fmt.Sprint("part-", application))
	if err := rpmbuild(ctx, sys, pieces, root, dir); err != nil {
		return err
	}
	pieces = nil
	if err := add(version, sys.build(strconv.Itoa(number-1)), "", stub); err != nil {
		return err
	}
	return rpmbuild(ctx, sys, pieces, root, dir)
}

// Merge makes one tree of Debian's three, as in the family of RHEL, for a kernel with the release uname. It
// leaves other architectures out, and the compiler is called gcc, without a version.
func (k *Kernel) Merge(tree, uname string) error {
	src := filepath.Join(k.Root, "usr/src")
	common := filepath.Join(src, "linux-headers-"+strings.TrimSuffix(k.Release, "-amd64")+"-common")
	kbuild, err := filepath.Glob(filepath.Join(k.Root, "usr/lib/linux-kbuild-*"))
	if err != nil || len(kbuild) != 1 {
		return fmt.Errorf("want one usr/lib/linux-kbuild-* in %s, have %d", k.Root, len(kbuild))
	}
	other := regexp.MustCompile(`^arch/([^/]+)/`)
	for _, from := range []string{common, filepath.Join(src, "linux-headers-"+k.Release), kbuild[0]} {
		err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(from, name)
			if err != nil {
				return err
			}
			if m := other.FindStringSubmatch(rel + "/"); m != nil && m[1] != "x86" {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			wrapper := rel == "Makefile" && from != common || rel == ".kernelvariables"
			if !d.Type().IsRegular() || wrapper { // links lead from one of the trees to another
				return nil
			}
			return k.copy(name, filepath.Join(tree, rel), uname)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// speaksOf matches the files of a tree that contain the kernel's release or its compiler.
var speaksOf = regexp.MustCompile(`/(kernel\.release|utsrelease\.h|\.config|auto\.conf|autoconf\.h|compile\.h|vermagic\.h)$`)

func (k *Kernel) copy(from, to, uname string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if speaksOf.MatchString(from) {
		text := strings.ReplaceAll(string(data), k.Release, uname)
		data = []byte(strings.ReplaceAll(text, "gcc-12 (Debian", "gcc (Debian"))
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
