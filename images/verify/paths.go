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

// consumerDirs are the library folders in which all consumers look, and no others.
var consumerDirs = []string{
	"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
}

// findFolders finds the folders of the image with libraries and with programs, each once, through
// its links: those of consumers, those that the dynamic loader knows, those that its configuration
// adds, those of 32-bit libraries, and those of PATH.
func (s *subject) findFolders() {
	dirs := slices.Concat(
		consumerDirs,
		[]string{"lib", "usr/lib", "usr/lib/i386-linux-gnu", "lib/i386-linux-gnu", "usr/lib32"},
		s.loaderConfig("etc/ld.so.conf", 0),
		strings.Split(s.env("LD_LIBRARY_PATH"), ":"),
	)
	s.libraryDirs = s.folders(dirs...)
	s.programDirs = s.folders(append(s.searchPath(), "usr/bin", "usr/sbin", "bin", "sbin")...)
}

// searchPath are the folders of PATH.
func (s *subject) searchPath() []string {
	return strings.Split(cmp.Or(s.env("PATH"), recipe.DefaultPath), ":")
}

// at is what a path leads to; nil: nothing.
func (s *subject) at(name string) *rootfs.Entry {
	e, err := s.tree.Stat(strings.Trim(name, "/"))
	if err != nil {
		return nil
	}
	return e
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

// text is the content of a file; nil if there is none, it is larger than limit bytes or was not
// kept.
func (s *subject) text(name string, limit int64) []byte {
	e := s.at(name)
	if e == nil || e.Kind != rootfs.File || e.Size > limit {
		return nil
	}
	text, err := s.tree.ReadFile(e.Path)
	if err != nil {
		return nil
	}
	return text
}

// folders are those of a list that exist, each once, through links.
func (s *subject) folders(list ...string) (dirs []string) {
	for _, d := range list {
		if strings.Trim(d, "/") == "" {
			continue
		}
		if e := s.at(d); e != nil && e.Kind == rootfs.Dir && !slices.Contains(dirs, e.Path) {
			dirs = append(dirs, e.Path)
		}
	}
	return dirs
}

// maxConfig bounds the files of the loader's configuration, in bytes each, and maxIncludes how deep
// they include each other.
const (
	maxConfig   = 64 << 10
	maxIncludes = 4
)

// loaderConfig reads the folders in ld.so.conf, with the files that it includes (ldconfig(8)). A
// pattern may have wildcards in its last part.
func (s *subject) loaderConfig(name string, depth int) (dirs []string) {
	if depth > maxIncludes {
		return nil
	}
	for line := range strings.Lines(string(s.text(name, maxConfig))) {
		line, _, _ = strings.Cut(line, "#")
		pattern, include := strings.CutPrefix(strings.TrimSpace(line), "include ")
		if !include {
			dirs = append(
				dirs,
				strings.FieldsFunc(
					line,
					func(r rune) bool { return strings.ContainsRune(" \t\n:,", r) },
				)...)
			continue
		}
		pattern = strings.TrimSpace(pattern)
		if !strings.HasPrefix(pattern, "/") {
			pattern = path.Join(path.Dir(name), pattern)
		}
		pattern = strings.Trim(pattern, "/")
		for _, file := range s.below(path.Dir(pattern)) {
			if ok, err := path.Match(path.Base(pattern), path.Base(file)); ok && err == nil {
				dirs = append(dirs, s.loaderConfig(file, depth+1)...)
			}
		}
	}
	return dirs
}

// which finds a program on the image's PATH; nil: there is none.
func (s *subject) which(name string) *rootfs.Entry {
	dirs := s.searchPath()
	if strings.Contains(name, "/") {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		if e := s.at(path.Join(dir, name)); isProgram(e) {
			return e
		}
	}
	return nil
}

func isProgram(
	e *rootfs.Entry,
) bool {
	return e != nil && e.Kind == rootfs.File && e.Mode&0o111 != 0
}
