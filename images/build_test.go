package images

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
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
			config, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range layersOf(t, img)[1:] {
				fmt.Fprintf(&text, "== layer %d: %s\n%s", i+1, config.History[i+1].CreatedBy, listing(t, l))
			}
			golden(t, r.World, "layers-"+name+".txt", text.String())
			manifest, err := img.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			manifest.Config.Size = 0
			for i := range manifest.Layers {
				manifest.Layers[i].Size = 0 // compressors may change
			}
			golden(t, r.World, "config-"+name+".json", jsonOf(t, config)+jsonOf(t, manifest))
			findings, err := examiner(r.b).Verify(t.Context(), name, img)
			if err != nil || verify.Unfit(findings) != nil {
				t.Errorf("%v, %v", findings, err)
			}
			i, err := examiner(r.b).Inspect(t.Context(), name, img)
			if err != nil {
				t.Fatal(err)
			}
			for n := range i.Layers {
				i.Layers[n].Size, i.Size = 0, 0
			}
			golden(t, r.World, "inspect-"+name+".json", jsonOf(t, i))
		})
	}
}

func TestSameDigest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := digestOf(t, r.build(t, pair("debian12", newDriver), recipe.Options{}))
	before := r.Requests("/pool/")
	if got := digestOf(t, r.build(t, pair("debian12", newDriver), recipe.Options{})); got != want {
		t.Errorf("from the cache: %s, want %s", got, want)
	}
	if r.Requests("/pool/") != before {
		t.Error("the second build downloaded packages again")
	}
	other := &rig{r.World, newBuilder(t, r.World, t.TempDir())}
	other.b.Jobs = 1
	if got := digestOf(t, other.build(t, pair("debian12", newDriver), recipe.Options{})); got != want {
		t.Errorf("in another folder with one job: %s, want %s", got, want)
	}
	// A record that cannot be read is written again.
	records, err := filepath.Glob(filepath.Join(r.b.Store.Dir(), "layers", "*.json"))
	if err != nil || len(records) != 12 { // five layers, the outlines of six, the list of files
		t.Fatalf("%q, %v", records, err)
	}
	for i, file := range records {
		if err := os.WriteFile(file, []byte("{}"[:i%3]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := digestOf(t, r.build(t, pair("debian12", newDriver), recipe.Options{})); got != want {
		t.Errorf("with broken records: %s, want %s", got, want)
	}
}

// TestSharedLayers: a second system with the same driver builds its own layers only.
func TestSharedLayers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	var built []string
	r.b.Observe = func(e progress.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Completed && !e.Cached && e.Err == nil {
			built = append(built, e.Name)
		}
	}
	one := layersOf(t, r.build(t, pair("ubuntu16.04", oldDriver), recipe.Options{}))
	built = nil
	two := layersOf(t, r.build(t, pair("ubuntu18.04", oldDriver), recipe.Options{}))
	for i, name := range []string{"base", "packages", "user-mode driver", "kernel sources", "entrypoint"} {
		if same := digestOf(t, one[i]) == digestOf(t, two[i]); same != (i > 1) {
			t.Errorf("%s: equal is %v", name, same)
		}
	}
	want := []string{"[418.87.01-ubuntu18.04 amd64] description layer", "[418.87.01-ubuntu18.04 amd64] file list layer",
		"[418.87.01-ubuntu18.04 amd64] packages layer", "[418.87.01-ubuntu18.04 amd64] plan"}
	if slices.Sort(built); !cmp.Equal(built, want) {
		t.Errorf("work done for the second system: %q", built)
	}
	if n := r.Requests(".run"); n != 1 {
		t.Errorf("the archive was asked for %d times", n)
	}
}

// TestConcurrent: targets that share layers, at the same time, make each layer once and get what one after
// the other gives.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pairs := []matrix.Selection{
		pair("ubuntu16.04", oldDriver), pair("ubuntu18.04", oldDriver), pair("ubuntu16.04", newDriver), pair("ubuntu18.04", newDriver), pair("debian12", newDriver),
	}
	digests := make([]string, 3*len(pairs))
	var eg errgroup.Group
	for i := range digests {
		target := r.target(t, pairs[i%len(pairs)])
		eg.Go(func() error {
			planned, err := r.b.Plan(t.Context(), target, recipe.Options{})
			if err != nil {
				return err
			}
			img, err := r.b.Build(t.Context(), planned)
			if err != nil {
				return err
			}
			d, err := img.Digest()
			digests[i] = d.String()
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := r.Requests(".run"); n != 2 {
		t.Errorf("%d requests for two archives", n)
	}
	other := &rig{r.World, newBuilder(t, r.World, t.TempDir())}
	for i, p := range pairs {
		want := digestOf(t, other.build(t, p, recipe.Options{}))
		for _, got := range []string{digests[i], digests[i+len(pairs)], digests[i+2*len(pairs)]} {
			if got != want {
				t.Errorf("%v: %s, want %s", p, got, want)
			}
		}
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	full := layersOf(t, r.build(t, pair("ubuntu16.04", newDriver), recipe.Options{}))
	compute := layersOf(t, r.build(t, pair("ubuntu16.04", newDriver), recipe.Options{Profile: recipe.Compute}))
	golden(t, r.World, "user-full.txt", listing(t, full[2]))
	golden(t, r.World, "user-compute.txt", listing(t, compute[2]))
	for _, i := range []int{0, 1, 3, 4} {
		if digestOf(t, full[i]) != digestOf(t, compute[i]) {
			t.Errorf("layer %d depends on the profile", i)
		}
	}
}

func TestFlavours(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, system := range []string{"debian12", "ubuntu18.04"} {
		for _, flavour := range []string{matrix.Open, matrix.Proprietary} {
			s := pair(system, newDriver)
			s.Flavours = []string{flavour}
			planned := r.plan(t, s, recipe.Options{})
			img, err := r.b.Build(t.Context(), planned)
			if err != nil {
				t.Fatal(err)
			}
			tree := treeOf(t, img)
			for _, f := range []string{matrix.Open, matrix.Proprietary} {
				if got := tree.Exists(recipe.KernelDir(newDriver, f) + "/Kbuild"); got != (f == flavour) {
					t.Errorf("%s %s: sources of %s: %v", system, flavour, f, got)
				}
			}
			if tree.Exists(recipe.KernelDir(newDriver, flavour) + "/debian/rules") {
				t.Error("Debian's own build files are there")
			}
			config, err := img.ConfigFile()
			if err != nil || config.Config.Labels[recipe.LabelFlavours] != flavour {
				t.Errorf("%v, %v", config.Config.Labels, err)
			}
		}
	}
}

func TestEpochAndCompression(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	zero := r.build(t, pair("ubuntu18.04", oldDriver), recipe.Options{})
	img := r.build(t, pair("ubuntu18.04", oldDriver), recipe.Options{Epoch: 1700000000, Compression: recipe.Zstd})
	if digestOf(t, zero) == digestOf(t, img) {
		t.Error("SOURCE_DATE_EPOCH changes nothing")
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := time.Unix(1700000000, 0).UTC()
	if !config.Created.Equal(want) || !config.History[2].Created.Equal(want) {
		t.Errorf("created %v, %v", config.Created, config.History)
	}
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
	for _, link := range []string{"lib", "bin", "sbin"} {
		if e, ok := tree.Lstat(link); !ok || e.Target != "usr/"+link {
			t.Errorf("%s is no link any more: %+v", link, e)
		}
	}
	for name, want := range map[string]bool{
		"usr/lib/x86_64-linux-gnu/libold.so.1": false, "usr/bin/kmod": true, "usr/sbin/modprobe": true, "usr/share/man/man1/libc6.1.gz": false,
		"usr/share/doc/libc6/copyright": true, "usr/share/doc/libc6/changelog.gz": false, "usr/bin/cc": true, "usr/bin/gcc": true,
		"usr/bin/gcc-12": true, "usr/include/stdio.h": true, "usr/lib/x86_64-linux-gnu/libtirpc.so.3": true,
		"var/lib/dpkg/info/libc6:amd64.postinst": false, "var/lib/dpkg/info/libc6:amd64.triggers": true,
	} {
		if tree.Exists(name) != want {
			t.Errorf("%s: there is %v, want %v", name, !want, want)
		}
	}
	golden(t, r.World, "dpkg-status.txt", read(t, tree, "var/lib/dpkg/status"))
	golden(t, r.World, "dpkg-info.txt", read(t, tree, "var/lib/dpkg/info/libc6:amd64.list")+"--\n"+read(t, tree, "var/lib/dpkg/info/libc6:amd64.md5sums")+
		"--\n"+read(t, tree, "var/lib/dpkg/info/kmod.list"))
	if got := read(t, tree, recipe.LicenceFile); !strings.Contains(got, "licence of ") {
		t.Errorf("licence: %q", got)
	}
	if got := read(t, tree, "usr/lib/firmware/nvidia/"+newDriver+"/gsp_ga10x.bin"); got != "firmware "+newDriver {
		t.Errorf("firmware: %q", got)
	}
	if got := read(t, tree, recipe.SupportedGPUs); got != `{"chips":[]}`+"\n" {
		t.Errorf("list of GPUs: %q", got)
	}
	if e, ok := tree.Lstat(libDir + "/libnvidia-ml.so.1"); !ok || e.Target != "libnvidia-ml.so."+newDriver {
		t.Errorf("%+v", e)
	}
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
		findings, err := examiner(r.b).Verify(t.Context(), arch, img)
		if err != nil || verify.Unfit(findings) != nil {
			t.Errorf("%s: %v, %v", arch, findings, err)
		}
		built = append(built, img)
	}
	one, err := Combine(built[:1])
	if err != nil || digestOf(t, one) != digestOf(t, built[0]) {
		t.Errorf("one image: %v, %v", one, err)
	}
	both, err := Combine(built)
	if err != nil {
		t.Fatal(err)
	}
	index, ok := both.(v1.ImageIndex)
	if !ok {
		t.Fatalf("%T", both)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Manifests {
		m.Manifests[i].Size = 0
	}
	golden(t, r.World, "index.json", jsonOf(t, m))
}
