package verify

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// checkVersion: consumers take the version from the first libcuda.so.* or libnvidia-ml.so.* they meet, so
// there must be one only. A stray second one makes them inject a single library without an error.
func checkVersion(s *subject, find func(Severity, string, string, ...any)) {
	seen := map[string]string{}
	for _, l := range s.drivers {
		if m := driverName.FindStringSubmatch(path.Base(l.entry.Path)); releaseVersion.MatchString(m[1]) {
			if _, ok := seen[m[1]]; !ok {
				seen[m[1]] = l.entry.Path
			}
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

func checkLibraryDir(s *subject, find func(Severity, string, string, ...any)) {
	for _, name := range []string{"libnvidia-ml.so.1", "libcuda.so.1"} {
		if !slices.ContainsFunc(libraryDirs(), func(dir string) bool { return s.tree.Exists(dir + "/" + name) }) {
			find(Error, "", "%s is in none of the folders that consumers search: /%s", name, strings.Join(libraryDirs(), ", /"))
		}
	}
}

// checkLinks: consumers follow links in their own root, where an absolute target leads somewhere else.
func checkLinks(s *subject, find func(Severity, string, string, ...any)) {
	for _, e := range s.tree.All() {
		if e.Kind != rootfs.Link || !driverName.MatchString(path.Base(e.Path)) || strings.HasPrefix(e.Path, "etc/") || strings.HasPrefix(e.Path, "usr/share/") {
			continue
		}
		if strings.HasPrefix(e.Target, "/") {
			find(Error, e.Path, "is an absolute link to %s: make it relative", e.Target)
		} else if !s.tree.Exists(e.Path) {
			find(Error, e.Path, "is a link to %s, which is not there", e.Target)
		}
	}
}

func checkFirmware(s *subject, find func(Severity, string, string, ...any)) {
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
				files, err := s.tree.ReadDir(dir + "/" + d.Name())
				found = found || err == nil && len(files) > 0
			}
		}
	}
	if !found {
		sev := Note
		if s.tree.Exists("usr/src/nvidia-" + s.version + "/kernel-open") {
			sev = Error // the open modules do not start a GPU without it
		}
		find(sev, "", "there is no GSP firmware of driver %s", s.version)
	}
}

// firmwareDirs are the folders with NVIDIA's firmware, each once: on a merged-/usr root two of the names are
// one folder.
func (s *subject) firmwareDirs() []string {
	var dirs []string
	for _, d := range []string{recipe.FirmwareDir, "usr/lib/firmware", "lib/firmware"} {
		if e, err := s.tree.Stat(d + "/nvidia"); err == nil && e.Kind == rootfs.Dir && !slices.Contains(dirs, e.Path) {
			dirs = append(dirs, e.Path)
		}
	}
	return dirs
}

func checkSources(s *subject, find func(Severity, string, string, ...any)) {
	if s.version == "" {
		return
	}
	list, err := s.tree.ReadDir("usr/src")
	if err != nil {
		list = nil
	}
	found := false
	for _, d := range list {
		v, ok := strings.CutPrefix(d.Name(), "nvidia-")
		switch {
		case !ok || !releaseVersion.MatchString(v):
		case v != s.version:
			find(Error, "usr/src/"+d.Name(), "are kernel sources of another driver than %s", s.version)
		default:
			found = true
		}
	}
	if !found {
		find(Note, "", "no kernel sources in /usr/src/nvidia-%s: only precompiled modules can be used", s.version)
	}
}

func checkEntrypoint(s *subject, find func(Severity, string, string, ...any)) {
	command := append(slices.Clone(s.config.Config.Entrypoint), s.config.Config.Cmd...)
	if len(command) == 0 {
		find(Error, "", "the image starts nothing: set an entrypoint")
	} else if _, ok := s.which(command[0]); !ok {
		find(Error, command[0], "is what the image starts, but is not there or not executable")
	}
	if _, ok := s.which(recipe.EntrypointLink); !ok {
		find(Error, "", "nvidia-driver is not on PATH: the GPU Operator starts the image with that command")
	}
	e, ok := s.which(recipe.EntrypointName)
	if !ok {
		return // not an image of this project
	}
	l, err := readLibrary(e)
	switch {
	case err != nil:
		find(Error, e.Path, "%v", err)
	case l.interp:
		find(Error, e.Path, "is not static: it would depend on the libraries of the base")
	case l.machine != s.machine():
		find(Error, e.Path, "is for %s, the image for %s", l.machine, s.config.Architecture)
	}
}

// checkPrograms: the GPU Operator's startup probe and preStop run in the image; consumers run modprobe and
// ldconfig in it.
func checkPrograms(s *subject, find func(Severity, string, string, ...any)) {
	for _, name := range []string{"sh", "mkdir", "cat", "mv", "rm", "nvidia-smi", "ldconfig", "modprobe"} {
		if _, ok := s.which(name); !ok {
			find(Error, "", "%s is not on PATH", name)
		}
	}
	for _, dir := range []string{"usr/bin", "usr/sbin", "bin", "sbin"} {
		if s.tree.Exists(dir + "/nvidia-smi") {
			return
		}
	}
	find(Error, "", "nvidia-smi is in none of /usr/bin, /usr/sbin, /bin, /sbin, where consumers look for it")
}

func checkEnvironment(s *subject, find func(Severity, string, string, ...any)) {
	if v := s.env("DRIVER_VERSION"); v != "" && v != s.version {
		find(Error, "", "DRIVER_VERSION is %s, the libraries are %s", v, s.version)
	}
	if v := s.env("NVIDIA_VISIBLE_DEVICES"); v != "void" {
		find(Note, "", "NVIDIA_VISIBLE_DEVICES is %q: without \"void\" the container runtime may inject a driver into the driver's container", v)
	}
}

func checkLicence(s *subject, find func(Severity, string, string, ...any)) {
	for _, dir := range []string{"licenses", "usr/share/licenses"} {
		if list, err := s.tree.ReadDir(dir); err == nil && len(list) > 0 {
			return
		}
	}
	find(Error, "", "NVIDIA's licence is not in /licenses: its terms ask that it goes with the driver")
}
