package verify

import (
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// libraryDirs are the folders in which all consumers look, and no others.
func libraryDirs() []string {
	return []string{
		"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
	}
}

// searchedDirs are the library folders of the image, each once, through its links: those of consumers, those
// that the dynamic loader knows, those that its configuration adds, and those of 32-bit libraries.
func (s *subject) searchedDirs() []string {
	dirs := append(libraryDirs(), "lib", "usr/lib", "usr/lib/i386-linux-gnu", "lib/i386-linux-gnu", "usr/lib32")
	dirs = append(dirs, s.loaderConfig("etc/ld.so.conf", 0)...)
	return s.folders(append(dirs, strings.Split(s.env("LD_LIBRARY_PATH"), ":")...))
}

// programDirs are the folders with programs.
func (s *subject) programDirs() []string {
	search := s.env("PATH")
	if search == "" {
		search = recipe.DefaultPath
	}
	return s.folders(append(strings.Split(search, ":"), "usr/bin", "usr/sbin", "bin", "sbin"))
}

// folders are those of a list that exist, each once, through links.
func (s *subject) folders(list []string) (dirs []string) {
	for _, d := range list {
		if d = strings.Trim(d, "/"); d == "" {
			continue
		}
		if e, err := s.tree.Stat(d); err == nil && e.Kind == rootfs.Dir && !slices.Contains(dirs, e.Path) {
			dirs = append(dirs, e.Path)
		}
	}
	return dirs
}

// maxConfig bounds the files of the loader's configuration, in bytes each, and maxIncludes how deep they
// include each other.
const (
	maxConfig   = 64 << 10
	maxIncludes = 4
)

// loaderConfig reads the folders in ld.so.conf, with the files that it includes (ldconfig(8)).
func (s *subject) loaderConfig(name string, depth int) (dirs []string) {
	e, err := s.tree.Stat(name)
	if err != nil || e.Kind != rootfs.File || e.Size > maxConfig || depth > maxIncludes {
		return nil
	}
	text, err := s.tree.ReadFile(name)
	if err != nil {
		return nil // its content was not kept
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if pattern, ok := strings.CutPrefix(strings.TrimSpace(line), "include "); ok {
			for _, file := range s.glob(path.Dir(name), strings.TrimSpace(pattern)) {
				dirs = append(dirs, s.loaderConfig(file, depth+1)...)
			}
			continue
		}
		dirs = append(dirs, strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\n:,", r) })...)
	}
	return dirs
}

// glob finds the files of a pattern with wildcards in its last part.
func (s *subject) glob(below, pattern string) (names []string) {
	if !strings.HasPrefix(pattern, "/") {
		pattern = path.Join(below, pattern)
	}
	dir, base := path.Split(strings.Trim(pattern, "/"))
	list, err := s.tree.ReadDir(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return nil
	}
	for _, d := range list {
		if ok, err := path.Match(base, d.Name()); ok && err == nil {
			names = append(names, path.Join(dir, d.Name()))
		}
	}
	return names
}

// which finds a program on the image's PATH.
func (s *subject) which(name string) (*rootfs.Entry, bool) {
	if strings.Contains(name, "/") {
		e, err := s.tree.Stat(name)
		return e, err == nil && e.Kind == rootfs.File && e.Mode&0o111 != 0
	}
	search := s.env("PATH")
	if search == "" {
		search = recipe.DefaultPath
	}
	for dir := range strings.SplitSeq(search, ":") {
		if e, err := s.tree.Stat(strings.Trim(dir, "/") + "/" + name); err == nil && e.Kind == rootfs.File && e.Mode&0o111 != 0 {
			return e, true
		}
	}
	return nil, false
}
