package images

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// guest makes a target's driver one for vGPU guests, from an archive of these files.
func (r *rig) guest(t *testing.T, target matrix.Target, licence, ending string, files []repotest.File) matrix.Target {
	t.Helper()
	data := imagetest.Run(t, newDriver, "amd64", files, nil)
	name := "/private/NVIDIA-Linux-x86_64-" + newDriver + ending
	r.Put(name, data)
	target.Driver.VGPU, target.Driver.Debian = licence, nil
	target.Driver.Archives = map[string]matrix.Archive{"amd64": {URL: r.URL + name, SHA256: fmt.Sprintf("%x", sha256.Sum256(data))}}
	return target
}

func guestFiles() []repotest.File {
	return append(imagetest.DriverFiles(newDriver, "amd64"), imagetest.GuestFiles(newDriver, "amd64")...)
}

// TestGuest: an image of a vGPU guest driver has the licence daemon, its libraries and templates in every
// profile, says whose licence it needs, and has modules that were compiled for a guest.
func TestGuest(t *testing.T) {
	t.Parallel()
	for _, profile := range []recipe.Profile{recipe.Full, recipe.Compute, recipe.CUDA} {
		r, f := precompiledRig(t)
		target := r.guest(t, r.target(t, pair("debian12", newDriver)), driverinfo.VGPUAWS, "-grid-aws.run", guestFiles())
		plan := require.Value(planOne(t, r.b, target, recipe.Options{Profile: profile, Kernels: []string{imagetest.Kernel}}))(t)
		assert.Equal(t, newDriver+"-"+imagetest.Kernel+"-debian12", plan.Tag)
		img := require.Value(r.b.Build(t.Context(), plan))(t)
		tree := treeOf(t, img)
		for _, name := range []string{
			recipe.Gridd, "usr/bin/nvidia-topologyd", libDir + "/nvidia/gridd/libgrid.so.1", libDir + "/nvidia/gridd/libgrid.so",
			"etc/nvidia/gridd.conf.template", "etc/nvidia/nvidia-topologyd.conf.template",
		} {
			assert.Equalf(t, true, tree.Exists(name), "profile %s: %s", profile, name)
		}
		info := require.Value(driverinfo.Read(tree.OpenFS()))(t)
		assert.Equalf(t, driverinfo.VGPUAWS, info.VGPU, "profile %s", profile)
		config := require.Value(img.ConfigFile())(t)
		assert.Equalf(t, driverinfo.VGPUAWS, config.Config.Labels[recipe.LabelVGPU], "profile %s", profile)
		assert.Contains(t, strings.Join(config.Config.Env, "\n"), "DRIVER_TYPE=vgpu")
		assert.Equalf(t, "LicenseRef-NVIDIA-vGPU", config.Config.Labels[recipe.OCIPrefix+"licenses"], "profile %s", profile)
		sets := 0
		for _, l := range layersOf(t, img) {
			require.NoError(t, kernelmodules.Each(t.Context(), r.b.Store, l, func(set *kbuild.Set, _ string, _ bool) error {
				sets++
				assert.Samef(t, []string{"GRID_BUILD=1", "GRID_BUILD_CSP=1"}, set.Key.Variables, "profile %s", profile)
				return nil
			}))
		}
		assert.Equalf(t, 1, sets, "profile %s: sets of modules", profile)
		assert.Equalf(t, int32(1), f.runs.Load(), "profile %s: compiles", profile)
	}
}

// TestGuestOrNot: the same version as a driver of whole GPUs, and for guests of two clouds, gives three
// images of different content; modules are shared between none of the three, because they differ.
func TestGuestOrNot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	whole := r.target(t, pair("debian12", newDriver))
	var ids, modules []string
	for _, target := range []matrix.Target{
		r.guest(t, whole, "", ".run", guestFiles()), r.guest(t, whole, driverinfo.VGPUAWS, "-grid.run", guestFiles()),
		r.guest(t, whole, driverinfo.VGPUNVIDIA, "-grid.run", guestFiles()),
	} {
		plan := require.Value(planOne(t, r.b, target, recipe.Options{Kernels: []string{imagetest.Kernel}}))(t)
		ids = append(ids, require.Value(plan.Labels())(t)[recipe.LabelContent])
		modules = append(modules, fmt.Sprint(plan.ModulesInputs(plan.Kernels[0], driverinfo.Open)))
	}
	for _, list := range [][]string{ids, modules} {
		slices.Sort(list)
		assert.Equalf(t, 3, len(slices.Compact(list)), "%s", list)
	}
}

// TestGuestRefused: an archive without the licence daemon is no guest driver, whatever its name says.
func TestGuestRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	files := slices.DeleteFunc(guestFiles(), func(f repotest.File) bool { return strings.HasSuffix(f.Name, "/nvidia-gridd") })
	target := r.guest(t, r.target(t, pair("debian12", newDriver)), driverinfo.VGPUNVIDIA, "-grid.run", files)
	plan := require.Value(planOne(t, r.b, target, recipe.Options{}))(t)
	assert.ErrorContains(t, assert.Err(r.b.Build(t.Context(), plan)), "it has no usr/bin/nvidia-gridd: is this a driver for vGPU guests?")
}
