package images

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/description"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/runner"
)

// offers replaces the kernels of a system's archive: "name version[ dependency]" for amd64.
func (r *rig) offers(system string, packages ...string) {
	a := r.Archives[system]
	a.Packages = slices.DeleteFunc(a.Packages, func(p repotest.Deb) bool { return strings.HasPrefix(p.Control, "Package: linux-") })
	for _, text := range packages {
		name, rest, _ := strings.Cut(text, " ")
		version, depends, _ := strings.Cut(rest, " ")
		control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: Test <test@example.com>\n", name, version)
		if depends != "" {
			control += "Depends: " + depends + "\n"
		}
		a.Packages = append(a.Packages, repotest.Deb{Control: control + "Description: for tests"})
	}
	a.Publish()
}

func (r *rig) place(t *testing.T, system string) matrix.Target {
	t.Helper()
	driver := newDriver
	if system != "debian12" {
		driver = oldDriver
	}
	target := r.target(t, pair(system, driver))
	target.Driver = matrix.Driver{}
	return target
}

var debianKernels = []string{
	"linux-headers-6.1.0-9-amd64 6.1.27-1", "linux-headers-6.1.0-38-amd64 6.1.147-1", "linux-headers-6.1.0-38-rt-amd64 6.1.147-1",
	"linux-headers-6.1.0-38-cloud-amd64 6.1.147-1", "linux-headers-6.1.0-38-common 6.1.147-1", "linux-headers-6.1.0-37-amd64 6.1.140-1",
	"linux-headers-6.12.43+deb12-amd64 6.12.43-1~deb12u1", "linux-headers-6.12.43+deb12-cloud-amd64 6.12.43-1~deb12u1",
	"linux-headers-amd64 6.1.147-1 linux-headers-6.1.0-38-amd64 (= 6.1.147-1)", "linux-headers-6.12-amd64 6.12.43-1~deb12u1 linux-headers-6.12.43+deb12-amd64",
	"linux-headers-cloud-amd64 6.1.147-1 linux-compiler-gcc-12-x86, linux-headers-6.1.0-38-cloud-amd64 (= 6.1.147-1)",
	"linux-image-6.1.0-9-amd64 6.1.27-1", "linux-image-6.1.0-38-amd64 6.1.147-1", "linux-image-6.1.0-38-rt-amd64 6.1.147-1",
	"linux-image-6.1.0-38-cloud-amd64-unsigned 6.1.147-1", "linux-image-6.12.43+deb12-amd64 6.12.43-1~deb12u1",
	"linux-image-6.12.43+deb12-cloud-amd64 6.12.43-1~deb12u1",
}

func TestKernels(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.offers("debian12", debianKernels...)
	kernel := func(release, flavour, version string, def bool) distros.Kernel {
		return distros.Kernel{Release: release, Flavour: flavour, Headers: "linux-headers-" + release, Version: version, Default: def}
	}
	want := []distros.Kernel{ // 6.1.0-37 has no kernel any more
		kernel("6.12.43+deb12-amd64", "amd64", "6.12.43-1~deb12u1", false),
		kernel("6.12.43+deb12-cloud-amd64", "cloud-amd64", "6.12.43-1~deb12u1", false),
		kernel("6.1.0-38-amd64", "amd64", "6.1.147-1", true),
		kernel("6.1.0-38-cloud-amd64", "cloud-amd64", "6.1.147-1", true),
		kernel("6.1.0-38-rt-amd64", "rt-amd64", "6.1.147-1", false), // no metapackage
		kernel("6.1.0-9-amd64", "amd64", "6.1.27-1", true),
	}
	got, err := r.b.Kernels(t.Context(), r.place(t, "debian12"), recipe.Options{})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	assert.Equalf(t, 0, r.Requests("/pool/"), "packages were asked for")

	// Offline, the second answer comes from the cache; online, it has what was published since.
	before := r.Requests("Packages")
	r.b.Fetch.Offline = true
	if got, err = r.b.Kernels(t.Context(), r.place(t, "debian12"), recipe.Options{}); err != nil || len(got) != len(want) || r.Requests("Packages") != before {
		t.Errorf("again: %d, %v", len(got), err)
	}
	r.b.Fetch.Offline = false
	r.offers("debian12", debianKernels[1], "linux-image-6.1.0-38-amd64 6.1.147-1", "linux-headers-6.1.0-38-amd64 6.1.147-2")
	got, err = r.b.Kernels(t.Context(), r.place(t, "debian12"), recipe.Options{})
	if diff := cmp.Diff([]distros.Kernel{kernel("6.1.0-38-amd64", "amd64", "6.1.147-2", false)}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// emptyMachine is a builder with an empty cache that takes finished layers from a repository, and that has no runner.
func (r *rig) emptyMachine(t *testing.T, repository string) *Builder {
	t.Helper()
	b := newBuilder(t, r.World, t.TempDir())
	b.Finished = layer.NewFinder(t.Context(), layer.FinderOptions{Registry: b.Registry, From: []string{repository}})
	b.Runner = func(context.Context) (runner.Runner, error) { return nil, runner.ErrUnavailable }
	return b
}

// leave pushes an image and makes its layers of use to later builds.
func leave(t *testing.T, b *Builder, repository, tag string, img v1.Image) {
	t.Helper()
	finder := layer.NewFinder(t.Context(), layer.FinderOptions{Registry: b.Registry, From: []string{repository}})
	_, _, err := b.Registry.Push(t.Context(), repository+":"+tag, img)
	require.NoError(t, err)
	require.NoError(t, finder.Publish(t.Context(), repository, tag, img, description.LayerName))
}

// TestModulesFound: an empty machine finds compiled modules by their key in images of other kernels, with or
// without sources and compiler. No runner is asked, so that a BuildKit daemon need not be there, and no
// headers are downloaded. A kernel that no image has modules for wants the runner.
func TestModulesFound(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	repository, s := r.Host+"/team/driver", pair("debian12", newDriver)
	for _, kernel := range []string{imagetest.Kernel, imagetest.OldKernel} {
		planned := r.plan(t, s, recipe.Options{Kernels: []string{kernel}})
		leave(t, r.b, repository, planned.Tag, require.Value(r.b.Build(t.Context(), planned))(t))
	}
	for what, o := range map[string]recipe.Options{
		"the same":  {Kernels: []string{imagetest.Kernel}},
		"together":  {Kernels: []string{imagetest.OldKernel, imagetest.Kernel}, OneImage: true},
		"toolchain": {Kernels: []string{imagetest.Kernel}, Toolchain: true},
		"sources":   {Kernels: []string{imagetest.Kernel}, Sources: true},
	} {
		b := r.emptyMachine(t, repository)
		planned := require.Value(planOne(t, b, r.target(t, s), o))(t)
		headers := r.Requests("linux-headers-") + r.Requests("linux-kbuild")
		img, err := b.Build(t.Context(), planned)
		require.NoErrorf(t, err, "%s", what)
		assert.Equalf(t, headers, r.Requests("linux-headers-")+r.Requests("linux-kbuild"), "%s: requests for headers", what)
		want := require.Value(r.b.Build(t.Context(), planned))(t)
		assert.Equalf(t, digestOf(t, want), digestOf(t, img), "%s", what)
	}
	assert.Equalf(t, 2, f.runs.Load(), "compiles")
	b := r.emptyMachine(t, repository)
	planned := require.Value(planOne(t, b, r.target(t, s), recipe.Options{Kernels: []string{imagetest.CloudKernel}}))(t)
	assert.ErrorIs(t, assert.Err(b.Build(t.Context(), planned)), runner.ErrUnavailable)
}
