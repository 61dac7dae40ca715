package depcheck

import (
	"slices"
	"strings"
	"testing"
)

// imageFloors are the packages of images, the lowest floor first. Of images, a package reaches only packages
// on lower floors. The packages on the lowest floor are tools, which may use each other.
var imageFloors = [][]string{
	{
		"images/advisory", "images/bundle", "images/cause", "images/cuda", "images/gpulist", "images/gpurules", "images/helmchart", "images/imagename", "images/matrix", "images/memo", "images/oci", "images/outfile", "images/page", "images/patch", "images/progress",
		"images/redist", "images/redistribution", "images/registry", "images/releases", "images/rootfs",
		"images/runfile", "images/runner", "images/signature", "images/workdir",
	},
	{"images/recipe"},
	{"images/layer", "images/lockfile", "images/provenance", "images/vex"},
	{"images/inventory", "images/kmm", "images/layercache", "images/moduleset", "images/packages", "images/programs", "images/toolkit"},
	{"images/driver", "images/modsign", "images/verify"},
	{"images/sbom"},
	{"images", "images/attestation"},
	{"images/batch", "images/rebuild"},
	{"images/survey"},
	{"images/fleet"},
}

// floor is that of a package of images, -1 for any other.
func floor(name string) int {
	if name != "images" && !strings.HasPrefix(name, "images/") {
		return -1
	}
	return slices.IndexFunc(imageFloors, func(some []string) bool {
		return slices.ContainsFunc(some, func(tree string) bool { return name == tree || tree != "images" && under(name, tree) })
	})
}

func TestImageFloors(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if !under(p.name(), "images") {
			continue
		}
		mine := floor(p.name())
		if mine < 0 {
			t.Errorf("%s is on no floor: add it to imageFloors", p.name())
		}
		for _, dep := range p.Deps {
			other := floor(strings.TrimPrefix(dep, module+"/"))
			if other > mine || other == mine && mine > 0 && !under(dep, p.ImportPath) {
				t.Errorf("%s reaches %s, which is not below it", p.name(), dep)
			}
		}
	}
}
