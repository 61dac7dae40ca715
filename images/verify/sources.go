package verify

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// checkFirmware: the open modules do not start a GPU without the firmware of their own version.
func checkFirmware(s *subject) {
	found := false
	// Each once: on a merged-/usr root two of the names are one folder.
	for _, dir := range s.folders(recipe.FirmwareDir+"/nvidia", "usr/lib/firmware/nvidia", "lib/firmware/nvidia") {
		for _, at := range s.below(dir) {
			switch {
			case !releaseVersion.MatchString(path.Base(at)):
			case path.Base(at) != s.version:
				s.fail(at, "is firmware of another driver than %s", s.version)
			default:
				found = s.checkFirmwareFiles(at) || found
			}
		}
	}
	if !found {
		sev := Note
		if s.tree.Exists("usr/src/nvidia-" + s.version + "/kernel-open") {
			sev = Error
		}
		s.find(sev, "", "there is no GSP firmware of driver %s", s.version)
	}
}

func (s *subject) checkFirmwareFiles(dir string) (found bool) {
	if _, err := s.tree.ReadDir(dir); err != nil {
		s.fail(dir, "is no folder with the firmware, or a link that leads nowhere")
		return false
	}
	files := s.below(dir)
	for _, name := range files {
		switch e := s.at(name); {
		case e == nil:
			s.fail(name, "is a link that leads nowhere")
		case e.Kind == rootfs.File && e.Size == 0:
			s.fail(e.Path, "is empty")
		}
	}
	return len(files) > 0
}

// anyModule matches compiled modules of the driver where distributions install them, and what other
// images keep for later: packages of modules, NVIDIA's archive.
var anyModule = regexp.MustCompile(
	`(?:^|/)(?:nvidia[a-z_-]*\.ko(?:\.gz|\.xz|\.zst)?|[a-z0-9.+_-]*nvidia[^/]*\.(?:deb|rpm)|NVIDIA-Linux-[^/]*\.run)$`,
)

// checkSources: a node compiles the modules, unless the image has them compiled.
func checkSources(s *subject) {
	if s.version == "" {
		return
	}
	found := false
	for _, dir := range s.below("usr/src") {
		v, ok := strings.CutPrefix(path.Base(dir), "nvidia-")
		switch {
		case !ok || !releaseVersion.MatchString(v):
		case v != s.version:
			s.fail(dir, "are kernel sources of another driver than %s", s.version)
		default:
			found = s.checkKernelDirs(dir) || found
		}
	}
	switch {
	case found:
	case s.infoErr == nil && !s.info.Toolchain && len(s.info.Precompiled) == 0: // checkDescription says so
	case s.hasModules():
		s.find(
			Note,
			"",
			"no kernel sources in /usr/src/nvidia-%s: only precompiled modules can be used",
			s.version,
		)
	default:
		s.fail(
			"",
			"no kernel sources in /usr/src/nvidia-%s, and no modules: no node can use the image",
			s.version,
		)
	}
}

func (s *subject) hasModules() bool {
	return len(s.sets) > 0 || // checkModules says which of them are whole
		slices.ContainsFunc(s.all, func(e *rootfs.Entry) bool {
			return e.Kind == rootfs.File && e.Size > 0 && anyModule.MatchString(e.Path)
		})
}

// checkKernelDirs checks each folder with sources: kernel, kernel-open, or the folder itself, as
// packages for DKMS have it.
func (s *subject) checkKernelDirs(top string) (found bool) {
	for _, dir := range []string{top + "/kernel", top + "/kernel-open", top} {
		if dir == top && found || !s.tree.Exists(dir) {
			continue
		}
		found = true
		for _, name := range []string{"Kbuild", "Makefile"} {
			s.checkSource(dir + "/" + name)
		}
	}
	return found
}

// checkSource checks one file of the sources.
func (s *subject) checkSource(name string) {
	e := s.at(name)
	switch {
	case e == nil:
		s.fail(name, "is not there: the modules cannot be compiled")
	case e.Kind != rootfs.File || e.Size == 0:
		s.fail(name, "is empty or no file: the modules cannot be compiled")
	}
}
