package verify

import (
	"bytes"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// anyModule matches compiled modules of the driver where distributions install them, and what other images
// keep for later: packages of modules, NVIDIA's archive.
var anyModule = regexp.MustCompile(`(?:^|/)(?:nvidia[a-z_-]*\.ko(?:\.gz|\.xz|\.zst)?|[a-z0-9.+_-]*nvidia[^/]*\.(?:deb|rpm)|NVIDIA-Linux-[^/]*\.run)$`)

// checkSources: a node compiles the modules, unless the image has them compiled.
func checkSources(s *subject, find finder) {
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
			found = s.checkKernelDirs("usr/src/"+d.Name(), find) || found
		}
	}
	switch {
	case found:
	case s.hasModules():
		find(Note, "", "no kernel sources in /usr/src/nvidia-%s: only precompiled modules can be used", s.version)
	default:
		find(Error, "", "no kernel sources in /usr/src/nvidia-%s, and no modules: no node can use the image", s.version)
	}
}

func (s *subject) hasModules() bool {
	if len(s.sets) > 0 {
		return true // checkModules says which of them are whole
	}
	for _, e := range s.all {
		if e.Kind == rootfs.File && e.Size > 0 && anyModule.MatchString(e.Path) {
			return true
		}
	}
	return false
}

// checkKernelDirs checks each folder with sources: kernel, kernel-open, or the folder itself, as packages for
// DKMS have it.
func (s *subject) checkKernelDirs(top string, find finder) (found bool) {
	for _, dir := range []string{top + "/kernel", top + "/kernel-open", top} {
		if dir == top && found || !s.tree.Exists(dir) {
			continue
		}
		found = true
		for _, name := range []string{"Kbuild", "Makefile"} {
			s.checkSource(dir+"/"+name, "", find)
		}
		s.checkNamedSources(dir, find)
	}
	return found
}

// namedSource matches what the driver's build files name: sources (NVIDIA_SOURCES += nvidia/nv.c), which are
// below the folder of the flavour, and objects that come compiled ($(src)/nvidia/nv-kernel.o_binary).
var namedSource = regexp.MustCompile(`(?m)^\s*NV[A-Z_]*SOURCES[A-Z_]*\s*[:+?]?=\s*([A-Za-z0-9_/.-]+\.(?:c|cpp|S))\s*$|\$\(src\)/([A-Za-z0-9_/.-]+\.o_binary)`)

// maxBuildFile bounds one of the driver's build files. They have at most 20 kB.
const maxBuildFile = 1 << 20

// checkNamedSources checks that the folder has what its build files name. A compile fails without; only the
// node would notice.
func (s *subject) checkNamedSources(dir string, find finder) {
	named := map[string]bool{}
	for _, e := range s.all {
		base := path.Base(e.Path)
		if e.Kind != rootfs.File || !recipe.InFolder(e.Path, dir) || base != "Kbuild" && !strings.HasSuffix(base, ".Kbuild") && !strings.HasSuffix(base, ".mk") {
			continue
		}
		r, err := e.Open()
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(r, maxBuildFile))
		if err != nil {
			continue
		}
		for _, m := range namedSource.FindAllSubmatch(text, -1) {
			if file := dir + "/" + string(bytes.Join(m[1:], nil)); !named[file] {
				named[file] = true
				s.checkSource(file, base, find)
			}
		}
	}
}

// checkSource checks one file of the sources; by names it, "" if every driver has it.
func (s *subject) checkSource(name, by string, find finder) {
	e, err := s.tree.Stat(name)
	switch {
	case err != nil && by == "":
		find(Error, name, "is not there: the modules cannot be compiled")
	case err != nil:
		find(Error, name, "is not there, but %s names it: the modules cannot be compiled", by)
	case e.Kind != rootfs.File || e.Size == 0:
		find(Error, name, "is empty or no file: the modules cannot be compiled")
	case strings.HasSuffix(name, ".o_binary"):
		if f, err := readELF(e); err != nil {
			find(Error, name, "%v", err)
		} else if !f.Relocatable || f.Machine != s.machine() {
			find(Error, name, "is no object file for %s: the modules cannot be compiled", s.config.Architecture)
		}
	}
}
