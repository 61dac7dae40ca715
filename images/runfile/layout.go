package runfile

import (
	"cmp"
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
	// A path word may begin and end with slashes. No real manifest has "..", even where the path would stay inside.
	clean, err := cleanName(cmp.Or(strings.Trim(full, "/"), "."))
	if err != nil {
		return "", fmt.Errorf("path %q %w", clip(full), err)
	}
	return clean, nil
}
