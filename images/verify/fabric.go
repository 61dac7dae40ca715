package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// maxProgram bounds how much of the fabric manager is searched for the driver's version: 595's has 40 MB.
const maxProgram = 256 << 20

// maxComponents bounds the list of components.
const maxComponents = 64 << 10

// components reads the versions of the driver's components, by name, which images of this project have.
func components(tree *rootfs.Tree) (map[string]string, error) {
	e, err := tree.Stat(recipe.ComponentsFile)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // an image without components has no such file
	}
	if e.Kind != rootfs.File || e.Size > maxComponents {
		return nil, fmt.Errorf("it is no file of at most %d bytes", maxComponents)
	}
	text, err := tree.ReadFile(e.Path)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("it is no list of versions: %w", err)
	}
	return all, nil
}

// checkFabric: on a machine with NVSwitch every CUDA program fails without a fabric manager of exactly the
// driver's version.
func checkFabric(s *subject, find finder) {
	listed, err := components(s.tree)
	if err != nil {
		find(Error, recipe.ComponentsFile, "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if name != matrix.NVLSM && s.version != "" && listed[name] != s.version {
			find(Error, recipe.ComponentsFile, "%s is of version %s, the driver of version %s: they work together only in the same version", name, listed[name], s.version)
		}
		if !s.tree.Exists(recipe.ComponentLicence(name)) {
			find(Error, recipe.ComponentLicence(name), "is not there: component %s must come with its licence", name)
		}
	}
	for _, c := range []struct{ component, file string }{
		{matrix.FabricManager, "usr/bin/nv-fabricmanager"}, {matrix.IMEX, "usr/bin/nvidia-imex"}, {matrix.IMEX, "usr/bin/nvidia-imex-ctl"},
		{matrix.NVLSM, recipe.NVLSMDir + "/sbin/nvlsm"}, {matrix.NVLSM, recipe.NVLSMDir + "/lib/libgrpc_mgr.so"},
	} {
		if e, ok := s.which(c.file); ok {
			s.checkProgram(e, find)
		} else if listed[c.component] != "" && !s.tree.Exists(c.file) {
			find(Error, c.file, "is not there, but belongs to component %s", c.component)
		}
	}
	if e, err := s.tree.Stat("usr/bin/nv-fabricmanager"); err == nil {
		s.checkFabricManager(e, listed, find)
	}
}

// checkFabricManager looks at what the fabric manager needs.
func (s *subject) checkFabricManager(e *rootfs.Entry, listed map[string]string, find finder) {
	if _, ok := s.which("ibstat"); !ok {
		find(Warning, "", "ibstat is not on PATH: NVIDIA's start script of the fabric manager ends with it missing on machines with NVLink 5 (package infiniband-diags)")
	}
	for _, name := range []string{"libnvfm.so.1", "libz.so.1"} {
		if !s.inLibraryDir(name) {
			find(Error, e.Path, "needs %s, which is in no library folder", name)
		}
	}
	if topologies := s.topologies(); topologies == 0 {
		find(Error, recipe.TopologyDir, "has no topology: the fabric manager does not start without that of its machine")
	}
	severity := Error
	if listed[matrix.FabricManager] == s.version {
		severity = Warning // the archive was of this version; the program may have been replaced
	}
	switch found, err := holds(e, s.version); {
	case err != nil:
		find(Error, e.Path, "%v", err)
	case !found && s.version != "":
		find(severity, e.Path, "does not hold the version of the driver, %s: a fabric manager of another version does not work with it", s.version)
	}
}

// topologies counts the topologies of machines.
func (s *subject) topologies() (n int) {
	list, err := s.tree.ReadDir(recipe.TopologyDir)
	if err != nil {
		return 0
	}
	for _, d := range list {
		if name := d.Name(); !d.IsDir() && !strings.HasSuffix(name, ".cfg") {
			n++
		}
	}
	return n
}

// inLibraryDir reports whether one of the image's library folders has a library.
func (s *subject) inLibraryDir(name string) bool {
	for _, e := range s.all {
		if path.Base(e.Path) == name && e.Kind != rootfs.Dir && e.Kind != rootfs.Special && (strings.HasPrefix(e.Path, "usr/lib") || strings.HasPrefix(e.Path, "lib")) {
			return true
		}
	}
	return false
}

// holds reports whether a file holds a text.
func holds(e *rootfs.Entry, text string) (bool, error) {
	if e.Kind != rootfs.File || e.Size > maxProgram {
		return false, fmt.Errorf("it is no program of at most %d bytes", maxProgram)
	}
	r, err := e.Open()
	if err != nil {
		return false, err
	}
	return bounded.Contains(r, text, maxProgram)
}
