package verify

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// coreLibraries are those without which no consumer works, in every driver since R418.
var coreLibraries = []string{"libnvidia-ml.so", "libcuda.so", "libnvidia-ptxjitcompiler.so"}

// checkVersion: consumers take the version from the first libcuda.so.* or libnvidia-ml.so.* they meet, so
// there must be one only. A stray second one makes them inject a single library without an error.
func checkVersion(s *subject, find finder) {
	seen := map[string]string{}
	for _, f := range s.drivers {
		if _, ok := seen[f.version]; !ok && f.version != "" {
			seen[f.version] = f.entry.Path
		}
	}
	versions := slices.Sorted(maps.Keys(seen))
	if len(versions) == 0 {
		find(Error, "", "no library of the driver has a version in its name (libcuda.so.X.Y.Z, libnvidia-ml.so.X.Y.Z)")
		return
	}
	s.version = versions[0]
	if want := s.env("DRIVER_VERSION"); slices.Contains(versions, want) {
		s.version = want
	}
	for _, v := range versions {
		if v != s.version {
			find(Error, seen[v], "is of driver %s, the image has %s: exactly one version may be there", v, s.version)
		}
	}
}

// checkLibraryDir: consumers find libraries by the names that they have had for ten years, and take the real
// one from where these lead.
func checkLibraryDir(s *subject, find finder) {
	for _, stem := range coreLibraries {
		name := stem + ".1"
		i := slices.IndexFunc(libraryDirs(), func(dir string) bool { return s.tree.Exists(dir + "/" + name) })
		if i < 0 {
			find(Error, "", "%s is in none of the folders that consumers search: /%s", name, strings.Join(libraryDirs(), ", /"))
			continue
		}
		at, err := s.tree.Stat(libraryDirs()[i] + "/" + name)
		if err != nil || s.version == "" {
			continue
		}
		if at.Kind != rootfs.File || !s.tree.Exists(path.Dir(at.Path)+"/"+stem+"."+s.version) {
			find(Error, at.Path, "is what %s leads to, and there is no %s.%s in its folder", name, stem, s.version)
		}
	}
}

// checkLinks: consumers follow links in their own root, where an absolute target leads somewhere else.
func checkLinks(s *subject, find finder) {
	libraries := s.searchedDirs()
	for _, e := range s.all {
		name := path.Base(e.Path)
		if e.Kind != rootfs.Link || !driverName.MatchString(name) || strings.HasPrefix(name, "lib") && !inLibraryDirs(e.Path, libraries) ||
			strings.HasPrefix(e.Path, "etc/") || strings.HasPrefix(e.Path, "usr/share/") {
			continue
		}
		at, err := s.tree.Stat(e.Path)
		switch {
		case strings.HasPrefix(e.Target, "/"):
			find(Error, e.Path, "is an absolute link to %s: make it relative", e.Target)
		case err != nil:
			find(Error, e.Path, "is a link to %s, which is not there", e.Target)
		case at.Kind != rootfs.File:
			find(Error, e.Path, "is a link to %s, which is no file", e.Target)
		}
	}
}

// checkFirmware: the open modules do not start a GPU without the firmware of their own version.
func checkFirmware(s *subject, find finder) {
	found := false
	for _, dir := range s.firmwareDirs() {
		list, err := s.tree.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, d := range list {
			switch {
			case !releaseVersion.MatchString(d.Name()):
			case d.Name() != s.version:
				find(Error, dir+"/"+d.Name(), "is firmware of another driver than %s", s.version)
			default:
				found = s.checkFirmwareFiles(dir+"/"+d.Name(), find) || found
			}
		}
	}
	if !found {
		sev := Note
		if s.tree.Exists("usr/src/nvidia-" + s.version + "/kernel-open") {
			sev = Error
		}
		find(sev, "", "there is no GSP firmware of driver %s", s.version)
	}
}

func (s *subject) checkFirmwareFiles(dir string, find finder) (found bool) {
	files, err := s.tree.ReadDir(dir)
	if err != nil {
		find(Error, dir, "is no folder with the firmware, or a link that leads nowhere")
		return false
	}
	for _, f := range files {
		e, err := s.tree.Stat(path.Join(dir, f.Name()))
		switch {
		case err != nil:
			find(Error, path.Join(dir, f.Name()), "is a link that leads nowhere")
		case e.Kind == rootfs.File && e.Size == 0:
			find(Error, e.Path, "is empty")
		}
	}
	return len(files) > 0
}

// firmwareDirs are the folders with NVIDIA's firmware, each once: on a merged-/usr root two of the names are
// one folder.
func (s *subject) firmwareDirs() []string {
	return s.folders([]string{recipe.FirmwareDir + "/nvidia", "usr/lib/firmware/nvidia", "lib/firmware/nvidia"})
}
