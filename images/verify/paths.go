package verify

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

func (s *subject) env(name string) string {
	for _, kv := range s.config.Config.Env {
		if n, v, _ := strings.Cut(kv, "="); n == name {
			return v
		}
	}
	return ""
}

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

// searchPath are the folders of PATH.
func (s *subject) searchPath() []string {
	return strings.Split(cmp.Or(s.env("PATH"), recipe.DefaultPath), ":")
}

// programDirs are the folders with programs.
func (s *subject) programDirs() []string {
	return s.folders(append(s.searchPath(), "usr/bin", "usr/sbin", "bin", "sbin"))
}

// below are the paths of what a folder has; none if there is no such folder.
func (s *subject) below(dir string) (paths []string) {
	list, err := s.tree.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, d := range list {
		paths = append(paths, path.Join(dir, d.Name()))
	}
	return paths
}

// text is the content of a file; nil if there is none, it is larger than limit bytes or was not kept.
func (s *subject) text(name string, limit int64) []byte {
	e, err := s.tree.Stat(name)
	if err != nil || e.Kind != rootfs.File || e.Size > limit {
		return nil
	}
	text, err := s.tree.ReadFile(e.Path)
	if err != nil {
		return nil
	}
	return text
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
	if depth > maxIncludes {
		return nil
	}
	for line := range strings.Lines(string(s.text(name, maxConfig))) {
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
func (s *subject) glob(dir, pattern string) (names []string) {
	if !strings.HasPrefix(pattern, "/") {
		pattern = path.Join(dir, pattern)
	}
	dir, base := path.Split(strings.Trim(pattern, "/"))
	for _, name := range s.below(strings.TrimSuffix(dir, "/")) {
		if ok, err := path.Match(base, path.Base(name)); ok && err == nil {
			names = append(names, name)
		}
	}
	return names
}

// which finds a program on the image's PATH.
func (s *subject) which(name string) (*rootfs.Entry, bool) {
	dirs := s.searchPath()
	if strings.Contains(name, "/") {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		if e, err := s.tree.Stat(strings.Trim(path.Join(dir, name), "/")); err == nil && isProgram(e) {
			return e, true
		}
	}
	return nil, false
}

func isProgram(e *rootfs.Entry) bool { return e.Kind == rootfs.File && e.Mode&0o111 != 0 }
