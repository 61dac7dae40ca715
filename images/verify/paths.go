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
		s.loaderConfig(),
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

// Bounds of the loader's configuration: the bytes of a file; the files that are read, and the lines
// that include others.
const (
	maxConfig   = 64 << 10
	maxIncludes = 100
)

// loaderConfig reads the folders in ld.so.conf, and in the files that it includes (ldconfig(8)). Files
// may include each other, so that not depth but number is bounded.
func (s *subject) loaderConfig() (dirs []string) {
	files := []string{"etc/ld.so.conf"}
	includes := 0
	for n := 0; n < min(len(files), maxIncludes); n++ {
		for line := range strings.Lines(string(s.text(files[n], maxConfig))) {
			line, _, _ = strings.Cut(line, "#")
			pattern, include := strings.CutPrefix(strings.TrimSpace(line), "include ")
			if !include {
				isBetween := func(r rune) bool { return strings.ContainsRune(" \t\n:,", r) }
				dirs = append(dirs, strings.FieldsFunc(line, isBetween)...)
				continue
			}
			includes++
			if includes <= maxIncludes {
				files = append(files, s.included(path.Dir(files[n]), strings.TrimSpace(pattern))...)
			}
		}
	}
	return dirs
}

// included are the files that a pattern in a file of a folder means. Its last part may have wildcards.
func (s *subject) included(dir, pattern string) (files []string) {
	if !strings.HasPrefix(pattern, "/") {
		pattern = path.Join(dir, pattern)
	}
	pattern = strings.Trim(pattern, "/")
	for _, file := range s.below(path.Dir(pattern)) {
		matches, _ := path.Match(path.Base(pattern), path.Base(file)) // a malformed one matches nothing
		if matches {
			files = append(files, file)
		}
	}
	return files
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

func isProgram(e *rootfs.Entry) bool {
	return e != nil && e.Kind == rootfs.File && e.Mode&0o111 != 0
}
