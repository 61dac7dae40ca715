package runfile

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Layout has the directories of a target system. All paths are relative to the image's root, without a
// leading slash.
type Layout struct {
	// LibDir is the directory of native libraries: usr/lib/x86_64-linux-gnu, usr/lib64. Mandatory.
	LibDir string
	// LibDir32 is the directory of 32-bit libraries. Without it, 32-bit entries are left out.
	LibDir32 string
	// FirmwareDir gets nvidia/<version>/ below it. Default usr/lib/firmware.
	FirmwareDir string
	// XModuleDir is for X server modules. Default usr/lib/xorg/modules.
	XModuleDir string
	// UnitDir is for systemd units. Default usr/lib/systemd/system.
	UnitDir string
}

func (l Layout) withDefaults() (Layout, error) {
	l.FirmwareDir = cmp.Or(l.FirmwareDir, "usr/lib/firmware")
	l.XModuleDir = cmp.Or(l.XModuleDir, "usr/lib/xorg/modules")
	l.UnitDir = cmp.Or(l.UnitDir, "usr/lib/systemd/system")
	if l.LibDir == "" {
		return l, errors.New("layout: the library directory of the target system is not set")
	}
	for _, dir := range []string{l.LibDir, l.LibDir32, l.FirmwareDir, l.XModuleDir, l.UnitDir} {
		if dir == "" {
			continue
		}
		if clean, err := cleanName(dir); err != nil || clean != dir || clean == "." {
			return l, fmt.Errorf("layout: directory %q is not a clean path below the image's root", clip(dir))
		}
	}
	if l.LibDir32 == l.LibDir {
		return l, fmt.Errorf("layout: %q is the directory of native and of 32-bit libraries at once", l.LibDir)
	}
	return l, nil
}

// expand replaces the words in braces of a rule's directory:
//
//	{lib} {bin} {xmodules} {units} {firmware}
//	              directories of the layout; {lib} depends on the entry's architecture
//	{version}     the driver's version
//	{path}        the entry's path word; {path|icd.d} gives a default for entries without one
//	{dir}         the directory of the entry's file in the archive
//	{inherited}   the same without its first INHERIT_PATH_DEPTH directories
//	{32}          "32" for 32-bit entries, nothing otherwise
func (l Layout) expand(dest, version string, e Entry) (string, error) {
	lib, thirtyTwo := l.LibDir, ""
	if e.Arch == Compat32 {
		lib, thirtyTwo = l.LibDir32, "32"
	}
	dir := path.Dir(e.File)
	inherited := strings.Split(dir, "/")
	inherited = inherited[min(e.Depth, len(inherited)):]
	where := e.Path
	if e.TLS == "NEW" {
		// The path here is tls/, a directory that loaders since glibc 2.37 do not search.
		where = ""
	}
	if before, fallback, ok := strings.Cut(dest, "{path|"); ok {
		dest = before + strings.TrimSuffix(fallback, "}")
		if where != "" {
			dest = before + "{path}"
		}
	}
	full := strings.NewReplacer("{lib}", lib, "{bin}", "usr/bin", "{xmodules}", l.XModuleDir, "{units}", l.UnitDir,
		"{firmware}", l.FirmwareDir, "{version}", version, "{path}", where, "{dir}", dir,
		"{inherited}", strings.Join(inherited, "/"), "{32}", thirtyTwo).Replace(dest)
	return relative(full)
}

// relative returns the clean relative path of a directory from a manifest, which may begin and end with
// slashes. It refuses "..", even where the path would stay inside: no real manifest has it.
func relative(dir string) (string, error) {
	dir = strings.Trim(dir, "/")
	if dir == "" {
		return ".", nil
	}
	clean, err := cleanName(dir)
	if err != nil {
		return "", fmt.Errorf("path %s: %w", strconv.Quote(clip(dir)), err)
	}
	return clean, nil
}

// linkTarget returns the relative target of a link at from to the file to, both below the root.
func linkTarget(from, to string) string {
	dir := strings.Split(path.Dir(from), "/")
	if path.Dir(from) == "." {
		dir = nil
	}
	target := strings.Split(to, "/")
	for len(dir) > 0 && len(target) > 1 && dir[0] == target[0] {
		dir, target = dir[1:], target[1:]
	}
	return strings.Repeat("../", len(dir)) + strings.Join(target, "/")
}
