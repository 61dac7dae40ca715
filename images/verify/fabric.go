package verify

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/strictjson"
)

// maxProgram bounds how much of the fabric manager is searched for the driver's version: 595's has
// 40 MB.
const maxProgram = 256 << 20

// maxComponents bounds the list of components.
const maxComponents = 64 << 10

// components reads the versions of the driver's components, by name, which images of this project
// have.
func (s *subject) components() (all map[string]string, err error) {
	if !s.tree.Exists(recipe.ComponentsFile) {
		return nil, nil //nolint:nilnil // an image without components has no such file
	}
	text := s.text(recipe.ComponentsFile, maxComponents)
	if text == nil {
		return nil, fmt.Errorf("it is no file of at most %d bytes", maxComponents)
	}
	all, err = strictjson.Decode[map[string]string](text)
	if err != nil {
		return nil, fmt.Errorf("it is no list of versions: %w", err)
	}
	return all, nil
}

// checkFabric: on a machine with NVSwitch every CUDA program fails without a fabric manager of
// exactly the driver's version.
func checkFabric(s *subject) {
	for _, name := range []string{
		"usr/bin/nv-fabricmanager",
		"usr/bin/nvidia-imex",
		"usr/bin/nvidia-imex-ctl",
		recipe.NVLSMDir + "/sbin/nvlsm",
	} {
		e := s.which(name)
		if e != nil {
			s.checkProgram(e)
		}
	}
	program := s.at("usr/bin/nv-fabricmanager")
	released := slices.Contains(matrix.Released(s.version), matrix.FabricManager)
	switch {
	case program != nil:
		s.checkFabricManager(program)
	case released && s.info.VGPU == "": // before, the fabric manager was no component; a vGPU sees no switches
		s.find(
			Note,
			"",
			"no fabric manager: on a machine with NVLink switches (HGX, DGX) preflight refuses the image, because every CUDA program "+
				"would fail with error 802; driver-build list shows the drivers that have one",
		)
	}
}

// checkFabricManager looks at what the fabric manager needs.
func (s *subject) checkFabricManager(e *rootfs.Entry) {
	if s.which("ibstat") == nil {
		s.find(
			Warning,
			"",
			"ibstat is not on PATH: NVIDIA's start script of the fabric manager ends with it missing on machines with NVLink 5 (package infiniband-diags)",
		)
	}
	for _, name := range []string{"libnvfm.so.1", "libz.so.1"} {
		if !slices.ContainsFunc(s.all, func(e *rootfs.Entry) bool {
			return path.Base(e.Path) == name && e.Kind != rootfs.Dir && e.Kind != rootfs.Special &&
				recipe.HasPrefix([]string{"usr/lib", "lib"}, e.Path)
		}) {
			s.fail(e.Path, "needs %s, which is in no library folder", name)
		}
	}
	if !slices.ContainsFunc(s.below(recipe.TopologyDir), func(name string) bool {
		e, ok := s.tree.Lstat(name)
		return ok && e.Kind != rootfs.Dir && !strings.HasSuffix(name, ".cfg")
	}) {
		s.fail(
			recipe.TopologyDir,
			"has no topology: the fabric manager does not start without that of its machine",
		)
	}
	found := false
	r, err := e.Open()
	if err == nil {
		found, err = bounded.Contains(r, s.version, maxProgram)
	}
	switch {
	case err != nil:
		s.fail(e.Path, "%v", err)
	case !found && s.version != "":
		s.find(
			Warning,
			e.Path,
			"does not hold the version of the driver, %s: a fabric manager of another version does not work with it",
			s.version,
		)
	}
}
