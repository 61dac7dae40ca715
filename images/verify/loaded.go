package verify

import (
	"bufio"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
)

// loaders are the libraries that load others of the driver by name while they run, without the version.
var loaders = []string{"libcuda.so.", "libnvidia-ml.so.", "libnvidia-ptxjitcompiler.so."}

// loadedName matches the name of a library of the driver as a string of C; its group is the name without
// "lib" and version.
var loadedName = regexp.MustCompile(`^lib(nvidia-[a-z0-9-]{1,60}|cuda)\.so[.0-9]{0,20}$`)

// jitLibraries are those without which programs fail that bring PTX or LTO code. Others serve one GPU or
// feature, and some drivers only have a name for them.
var jitLibraries = []string{"nvidia-ptxjitcompiler", "nvidia-nvvm", "nvidia-gpucomp", "nvidia-fatbinaryloader"}

// checkLoaded: no dependency in the file says what a library loads by name, so that a profile or a package
// list that lacks it would be noticed by a program on a node only.
func checkLoaded(s *subject, find finder) {
	seen := map[string]bool{}
	for _, f := range s.drivers {
		if f.version == "" || f.elf == nil || !recipe.HasPrefix(loaders, path.Base(f.entry.Path)) {
			continue
		}
		names, err := stringsOf(f)
		if err != nil {
			find(Error, f.entry.Path, "cannot be read: %v", err)
			continue
		}
		for _, name := range names {
			stem := loadedName.FindStringSubmatch(name)[1]
			if seen[stem] || s.hasLibrary(path.Dir(f.entry.Path), "lib"+stem+".so") {
				continue
			}
			seen[stem] = true
			sev := Note
			if slices.Contains(jitLibraries, stem) {
				sev = Error
			}
			find(sev, f.entry.Path, "loads %s when it needs it, and the image has no lib%s", name, stem)
		}
	}
}

// hasLibrary reports whether a folder has a library in any version.
func (s *subject) hasLibrary(dir, stem string) bool {
	list, err := s.tree.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, d := range list {
		if rest, ok := strings.CutPrefix(d.Name(), stem); ok && (rest == "" || rest[0] == '.') {
			return true
		}
	}
	return false
}

// stringsOf returns the strings of a library that are names of the driver's libraries.
func stringsOf(f driverFile) (names []string, err error) {
	in, err := f.entry.Open()
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(in, 256<<10)
	for {
		text, err := r.ReadSlice(0)
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // no name is so long
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return nil, err
		default:
			text = text[:len(text)-1]
			if len(text) < 100 && strings.HasPrefix(string(text), "lib") && loadedName.Match(text) && !slices.Contains(names, string(text)) {
				names = append(names, string(text))
			}
		}
	}
}
