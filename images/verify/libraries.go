package verify

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// coreLibraries are those without which no consumer works, in every driver since R418.
var coreLibraries = []string{"libnvidia-ml.so", "libcuda.so", "libnvidia-ptxjitcompiler.so"}

// checkVersion: consumers take the version from the first libcuda.so.* or libnvidia-ml.so.* they
// meet, so there must be one only. A stray second one makes them inject a single library without an
// error.
func checkVersion(s *subject) {
	seen := map[string]string{}
	for _, f := range s.drivers {
		if f.version != "" && seen[f.version] == "" {
			seen[f.version] = f.Path
		}
	}
	versions := slices.Sorted(maps.Keys(seen))
	if len(versions) == 0 && s.modulesOnly() {
		s.version = s.info.Driver
		return
	}
	if len(versions) == 0 {
		s.fail(
			"",
			"no library of the driver has a version in its name (libcuda.so.X.Y.Z, libnvidia-ml.so.X.Y.Z)",
		)
		return
	}
	s.version = versions[0]
	if want := s.env("DRIVER_VERSION"); slices.Contains(versions, want) {
		s.version = want
	}
	for _, v := range versions {
		if v != s.version {
			s.fail(
				seen[v],
				"is of driver %s, the image has %s: exactly one version may be there",
				v,
				s.version,
			)
		}
	}
}

// checkLibraryDir: consumers find libraries by the names that they have had for ten years, and take
// the real one from where these lead.
func checkLibraryDir(s *subject) {
	for _, stem := range coreLibraries {
		name := stem + ".1"
		i := slices.IndexFunc(
			consumerDirs,
			func(dir string) bool { return s.tree.Exists(dir + "/" + name) },
		)
		if i < 0 {
			s.fail(
				"",
				"%s is in none of the folders that consumers search: /%s",
				name,
				strings.Join(consumerDirs, ", /"),
			)
			continue
		}
		at := s.at(consumerDirs[i] + "/" + name)
		if at != nil && s.version != "" &&
			(at.Kind != rootfs.File || !s.tree.Exists(path.Dir(at.Path)+"/"+stem+"."+s.version)) {
			s.fail(
				at.Path,
				"is what %s leads to, and there is no %s.%s in its folder",
				name,
				stem,
				s.version,
			)
		}
	}
}

// checkLinks: consumers follow links in their own root, where an absolute target leads somewhere
// else.
func checkLinks(s *subject) {
	for _, e := range s.all {
		name := path.Base(e.Path)
		if e.Kind != rootfs.Link || !driverName.MatchString(name) ||
			strings.HasPrefix(name, "lib") && !s.inLibraryDirs(e.Path) ||
			recipe.HasPrefix([]string{"etc/", "usr/share/"}, e.Path) {
			continue
		}
		switch at := s.at(e.Path); {
		case strings.HasPrefix(e.Target, "/"):
			s.fail(e.Path, "is an absolute link to %s: make it relative", e.Target)
		case at == nil:
			s.fail(e.Path, "is a link to %s, which is not there", e.Target)
		case at.Kind != rootfs.File:
			s.fail(e.Path, "is a link to %s, which is no file", e.Target)
		}
	}
}

// loaders are the libraries that load others of the driver by name while they run, without the
// version.
var loaders = []string{"libcuda.so.", "libnvidia-ml.so.", "libnvidia-ptxjitcompiler.so."}

// loadedName matches the name of a library of the driver as a string of C; its group is the name
// without "lib" and version.
var loadedName = regexp.MustCompile(`^lib(nvidia-[a-z0-9-]{1,60}|cuda)\.so[.0-9]{0,20}$`)

// jitLibraries are those without which programs fail that bring PTX or LTO code. Others serve one
// GPU or feature, and some drivers only have a name for them.
var jitLibraries = []string{
	"nvidia-ptxjitcompiler",
	"nvidia-nvvm",
	"nvidia-gpucomp",
	"nvidia-fatbinaryloader",
}

// checkLoaded: no dependency in the file says what a library loads by name, so that a profile or a
// package list that lacks it would be noticed by a program on a node only.
func checkLoaded(s *subject) {
	seen := map[string]bool{}     // a folder and a name: links may give it many libraries
	reported := map[string]bool{} // names that are missing
	for _, f := range s.drivers {
		if f.version == "" || f.elf == nil || !recipe.HasPrefix(loaders, path.Base(f.Path)) {
			continue
		}
		names, err := loadedBy(f)
		if err != nil {
			s.fail(f.Path, "cannot be read: %v", err)
			continue
		}
		dir := path.Dir(f.Path)
		for _, name := range names {
			stem := loadedName.FindStringSubmatch(name)[1]
			if seen[dir+" "+stem] || reported[stem] {
				continue
			}
			seen[dir+" "+stem] = true
			isIt := func(p string) bool { return strings.HasPrefix(path.Base(p)+".", "lib"+stem+".so.") }
			if slices.ContainsFunc(s.below(dir), isIt) {
				continue
			}
			reported[stem] = true
			sev := Note
			if slices.Contains(jitLibraries, stem) {
				sev = Error
			}
			s.find(sev, f.Path, "loads %s when it needs it, and the image has no lib%s", name, stem)
		}
	}
}

// maxLoaded bounds the names of libraries that are kept of one library.
const maxLoaded = 1000

// loadedBy returns the strings of a library that are names of the driver's libraries.
func loadedBy(f driverFile) (names []string, err error) {
	in, err := f.Open()
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
			if len(text) < 100 && strings.HasPrefix(string(text), "lib") &&
				loadedName.Match(text) &&
				!slices.Contains(names, string(text)) {
				names = append(names, string(text))
			}
			if len(names) > maxLoaded {
				return nil, fmt.Errorf("it names more than %d libraries of the driver", maxLoaded)
			}
		}
	}
}
