package images

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b := require.Value(json.MarshalIndent(v, "", "  "))(t)
	return string(b) + "\n"
}

func TestPlanGolden(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	golden(t, r.World, "recipe-debian12.json", jsonOf(t, r.plan(t, pair("debian12", newDriver), recipe.Options{}).Public()))
	golden(t, r.World, "recipe-ubuntu16.04.json", jsonOf(t, r.plan(t, pair("ubuntu16.04", oldDriver), recipe.Options{
		Profile: recipe.Compute, Compression: recipe.Zstd, Epoch: 1700000000,
	})))
	if n := r.Requests("/pool/") + r.Requests(".run"); n != 0 {
		t.Errorf("planning downloaded %d packages or drivers", n)
	}
}

// TestImageGolden covers what the image is made of: each layer, configuration, annotations.
func TestImageGolden(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]matrix.Selection{"debian12": pair("debian12", newDriver), "ubuntu16.04": pair("ubuntu16.04", oldDriver)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			img := r.build(t, s, recipe.Options{})
			var text strings.Builder
			config := require.Value(img.ConfigFile())(t)
			for i, l := range layersOf(t, img)[1:] {
				fmt.Fprintf(&text, "== layer %d: %s\n%s", i+1, config.History[i+1].CreatedBy, listing(t, l))
			}
			golden(t, r.World, "layers-"+name+".txt", text.String())
			manifest := require.Value(img.Manifest())(t)
			manifest.Config.Size = 0
			for i := range manifest.Layers {
				manifest.Layers[i].Size = 0 // compressors may change
			}
			golden(t, r.World, "config-"+name+".json", jsonOf(t, config)+jsonOf(t, manifest))
			wantFit(t, r.b, img)
			i := require.Value(examiner(r.b).Inspect(t.Context(), name, img))(t)
			for n := range i.Layers {
				i.Layers[n].Size, i.Size = 0, 0
			}
			golden(t, r.World, "inspect-"+name+".json", jsonOf(t, i))
		})
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	full := layersOf(t, r.build(t, pair("ubuntu16.04", newDriver), recipe.Options{}))
	compute := layersOf(t, r.build(t, pair("ubuntu16.04", newDriver), recipe.Options{Profile: recipe.Compute}))
	cuda := layersOf(t, r.build(t, pair("ubuntu16.04", newDriver), recipe.Options{Profile: recipe.CUDAGA10x}))
	golden(t, r.World, "user-cuda.txt", listing(t, cuda[2]))
	golden(t, r.World, "user-full.txt", listing(t, full[2]))
	golden(t, r.World, "user-compute.txt", listing(t, compute[2]))
	for _, i := range []int{0, 1, 3, 4} {
		assert.Equalf(t, digestOf(t, compute[i]), digestOf(t, full[i]), "layer %d depends on the profile", i)
	}
	_, err := r.b.Build(t.Context(), r.plan(t, pair("ubuntu16.04", newDriver), recipe.Options{Profile: recipe.CUDATU10x}))
	assert.ErrorContains(t, err, "has no gsp_tu10x.bin", "use the profile cuda")
}

func TestFlavours(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, system := range []string{"debian12", "ubuntu18.04"} {
		for _, flavour := range []string{matrix.Open, matrix.Proprietary} {
			s := pair(system, newDriver)
			s.Flavours = []string{flavour}
			planned := r.plan(t, s, recipe.Options{})
			img := require.Value(r.b.Build(t.Context(), planned))(t)
			tree := treeOf(t, img)
			for _, f := range []string{matrix.Open, matrix.Proprietary} {
				assert.Equalf(t, f == flavour, tree.Exists(recipe.KernelDir(newDriver, f)+"/Kbuild"), "%s %s: sources of %s", system, flavour, f)
			}
			assert.Equalf(t, false, tree.Exists(recipe.KernelDir(newDriver, flavour)+"/debian/rules"), "Debian's own build files are there")
			config, err := img.ConfigFile()
			assert.Equalf(t, false, err != nil || config.Config.Labels[recipe.LabelFlavours] != flavour, "%v, %v", config.Config.Labels, err)
		}
	}
}

func TestEpochAndCompression(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	zero := r.build(t, pair("ubuntu18.04", oldDriver), recipe.Options{})
	img := r.build(t, pair("ubuntu18.04", oldDriver), recipe.Options{Epoch: 1700000000, Compression: recipe.Zstd})
	assert.Equalf(t, false, digestOf(t, zero) == digestOf(t, img), "SOURCE_DATE_EPOCH changes nothing")
	config := require.Value(img.ConfigFile())(t)
	want := time.Unix(1700000000, 0).UTC()
	assert.Equalf(t, true, config.Created.Equal(want) && config.History[2].Created.Equal(want), "created %v, %v", config.Created, config.History)
	for i, l := range layersOf(t, img)[1:] {
		if mt, err := l.MediaType(); err != nil || mt != types.OCILayerZStd {
			t.Errorf("layer %d is %s, %v", i+1, mt, err)
		}
		members(t, l, func(h *tar.Header) {
			if !h.ModTime.Equal(want) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
				t.Errorf("%s: %v, owner %d %s", h.Name, h.ModTime, h.Uid, h.Uname)
			}
		})
	}
}

// TestPackagesInstalled: what dpkg and scanners read is right, and the base stays alive.
func TestPackagesInstalled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tree := treeOf(t, r.build(t, pair("debian12", newDriver), recipe.Options{}))
	golden(t, r.World, "dpkg-status.txt", read(t, tree, "var/lib/dpkg/status"))
	golden(t, r.World, "dpkg-info.txt", read(t, tree, "var/lib/dpkg/info/libc6:amd64.list")+"--\n"+read(t, tree, "var/lib/dpkg/info/libc6:amd64.md5sums")+
		"--\n"+read(t, tree, "var/lib/dpkg/info/kmod.list"))
	assert.Containsf(t, read(t, tree, recipe.LicenceFile), "licence of ", "licence")
	assert.Equalf(t, "firmware "+newDriver, read(t, tree, "usr/lib/firmware/nvidia/"+newDriver+"/gsp_ga10x.bin"), "firmware")
	assert.Equalf(t, `{"chips":[]}`+"\n", read(t, tree, recipe.SupportedGPUs), "list of GPUs")
	if got := read(t, tree, "licenses/nvidia-persistenced.txt"); got == "" {
		t.Error("the licence of a package of another version is not there")
	}
}

func TestCombine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var built []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		s := pair("debian12", newDriver)
		s.Archs = []string{arch}
		img := r.build(t, s, recipe.Options{})
		wantFit(t, r.b, img)
		built = append(built, img)
	}
	one, err := Combine(built[:1])
	assert.Equalf(t, false, err != nil || digestOf(t, one) != digestOf(t, built[0]), "one image: %v, %v", one, err)
	both := require.Value(Combine(built))(t)
	index, ok := both.(v1.ImageIndex)
	if !ok {
		t.Fatalf("%T", both)
	}
	m := require.Value(index.IndexManifest())(t)
	for i := range m.Manifests {
		m.Manifests[i].Size = 0
	}
	golden(t, r.World, "index.json", jsonOf(t, m))
}
