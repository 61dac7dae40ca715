package runfile

import (
	"fmt"
	"path"
	"strings"
)

// Layout has the directories of a target system. All paths are relative to the image's root, without a
// leading slash.
type Layout struct {
	LibDir      string // native libraries: usr/lib/x86_64-linux-gnu, usr/lib64
	LibDir32    string // 32-bit libraries; "": their entries are left out
	FirmwareDir string // gets nvidia/<version>/ below it
}

func (l Layout) check() error {
	for _, dir := range []string{l.LibDir, l.LibDir32, l.FirmwareDir} {
		if dir == "" && dir == l.LibDir32 && l.LibDir != "" {
			continue
		}
		if clean, err := cleanName(dir); err != nil || clean != dir || clean == "." {
			return fmt.Errorf("layout: directory %q is not a clean path below the image's root", clip(dir))
		}
	}
	if l.LibDir32 == l.LibDir {
		return fmt.Errorf("layout: %q is the directory of native and of 32-bit libraries at once", l.LibDir)
	}
	return nil
}

// expand replaces the words in braces of a rule's directory:
//
//	{lib} {firmware}
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
	full := strings.NewReplacer("{lib}", lib, "{firmware}", l.FirmwareDir, "{version}", version, "{path}", where, "{dir}", dir,
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
		return "", fmt.Errorf("path %q %w", clip(dir), err)
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
