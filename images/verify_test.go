package images

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

// changed lays files over an image, and changes its configuration.
func changed(t *testing.T, img v1.Image, files []repotest.File, config func(*v1.Config)) v1.Image {
	t.Helper()
	layer, err := tarball.LayerFromOpener(opener(repotest.Compress(t, ".gz", repotest.Tar(t, "", files))), tarball.WithMediaType(types.OCILayer))
	require.NoError(t, err)
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		t.Fatal(err)
	}
	c := require.Value(img.ConfigFile())(t)
	c = c.DeepCopy()
	if config != nil {
		config(&c.Config)
	}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	m := require.Value(img.Manifest())(t).DeepCopy()
	m.Annotations = c.Config.Labels
	return annotated{img, m}
}

// annotated is an image whose manifest says something else.
type annotated struct {
	v1.Image
	manifest *v1.Manifest
}

func (a annotated) Manifest() (*v1.Manifest, error) { return a.manifest, nil }

func soFile(arch, soname string, needed ...string) string {
	return string(imagetest.ELF{Arch: arch, Soname: soname, Needed: needed}.Bytes())
}

func gone(names ...string) (files []repotest.File) {
	for _, n := range names {
		i := strings.LastIndexByte(n, '/') + 1
		files = append(files, repotest.File{Name: n[:i] + ".wh." + n[i:]})
	}
	return files
}

// described is the note of the good image, changed.
func described(t *testing.T, good v1.Image, change func(*driverinfo.Description)) string {
	t.Helper()
	labels := require.Value(good.ConfigFile())(t).Config.Labels
	info := driverinfo.Description{
		Driver: newDriver, Branch: "R535", OS: "debian12", Arch: "amd64", Profile: "full", Flavours: []string{"proprietary", "open"},
		ID: labels[recipe.LabelContent], Toolchain: true,
	}
	change(&info)
	text := require.Value(info.Encode())(t)
	return string(text)
}

// undescribed is an image whose description names neither layers nor configuration: one that an
// older driver-build made.
func undescribed(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	layers := layersOf(t, img)
	last := len(layers) - 1
	old := require.Value(mutate.AppendLayers(empty.Image, layers[:last]...))(t)
	config := require.Value(img.ConfigFile())(t).DeepCopy()
	config.RootFS = require.Value(old.ConfigFile())(t).RootFS
	config.History = config.History[:last]
	old = require.Value(mutate.ConfigFile(old, config))(t)
	info := require.Value(driverinfo.Read(treeOf(t, img).OpenFS()))(t)
	info.Layers = nil
	info.Configuration = nil
	text := require.Value(info.Encode())(t)
	return changed(t, old, []repotest.File{{Name: driverinfo.Path, Body: string(text)}}, nil)
}

// TestVerify is about the rules for images whose layers no description names.
func TestVerify(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	good := undescribed(t, r.build(t, pair("debian12", newDriver), recipe.Options{}))
	const v, lib = newDriver, libDir + "/"
	i := require.Value(examiner(r.b).Inspect(t.Context(), "x", changed(t, good, gone("usr/local/bin/driver-probe"), nil)))(t)
	assert.Same(t, []string{recipe.ProbeName}, i.Lacks)
	const noFirmware = "error: firmware: usr/lib/firmware/nvidia/" + v + ": is no folder with the firmware, or a link that leads nowhere"
	put := func(name, body string) []repotest.File {
		return []repotest.File{{Name: name, Body: body, Mode: 0o755}}
	}
	link := func(name, target string) []repotest.File { return []repotest.File{{Name: name, Link: target}} }
	env := func(old, with string) func(*v1.Config) {
		return func(c *v1.Config) {
			for i, kv := range c.Env {
				if strings.HasPrefix(kv, old+"=") {
					c.Env[i] = with
				}
			}
		}
	}
	for what, c := range map[string]struct {
		files  []repotest.File
		config func(*v1.Config)
		want   []string
	}{
		"good":           {nil, nil, nil},
		"no probe":       {gone("usr/local/bin/driver-probe"), nil, []string{"note: entrypoint: usr/local/bin/driver-probe: is not there: GPUs are asked with nvidia-smi, if the image has it"}},
		"second version": {put(lib+"libcuda.so.550.54.14", soFile("amd64", "libcuda.so.1")), nil, []string{"error: driver-version: " + lib + "libcuda.so.550.54.14: is of driver 550.54.14, the image has 535.261.03: exactly one version may be there"}},
		"absolute link":  {link(lib+"libnvidia-ml.so.1", "/"+lib+"libnvidia-ml.so."+v), nil, []string{"error: relative-links: " + lib + "libnvidia-ml.so.1: is an absolute link to /" + lib + "libnvidia-ml.so.535.261.03: make it relative"}},
		"dangling link":  {link(lib+"libnvidia-odd.so.1", "libnvidia-odd.so.2"), nil, []string{"error: relative-links: " + lib + "libnvidia-odd.so.1: is a link to libnvidia-odd.so.2, which is not there"}},
		"missing soname": {gone(lib+"libnvidia-ptxjitcompiler.so.1", lib+"libnvidia-ptxjitcompiler.so"), nil, []string{
			"error: library-directory: libnvidia-ptxjitcompiler.so.1 is in none of the folders that consumers search: /usr/lib64, /usr/lib/x86_64-linux-gnu, /usr/lib/aarch64-linux-gnu, /lib64, /lib/x86_64-linux-gnu, /lib/aarch64-linux-gnu", "error: soname: " + lib + "libnvidia-ptxjitcompiler.so.535.261.03: nothing in /usr/lib/x86_64-linux-gnu has its soname libnvidia-ptxjitcompiler.so.1: add the link"}},
		"dependency":      {put(lib+"libnvidia-odd.so."+v, soFile("amd64", "", "libnothing.so.1")), nil, []string{"error: dependencies: " + lib + "libnvidia-odd.so.535.261.03: needs libnothing.so.1, which the image has not"}},
		"consumer's":      {put(lib+"libnvidia-odd.so."+v, soFile("amd64", "", "libwayland-client.so.0")), nil, []string{"note: dependencies: " + lib + "libnvidia-odd.so.535.261.03: needs libwayland-client.so.0, which the container that uses it must have"}},
		"machine":         {put(lib+"libnvidia-odd.so."+v, soFile("arm64", "")), nil, []string{"error: elf-machine: " + lib + "libnvidia-odd.so.535.261.03: is for EM_AARCH64, the image for amd64"}},
		"not in path":     {append(gone(lib+"libcuda.so."+v, lib+"libcuda.so.1", lib+"libcuda.so"), put("opt/lib/libcuda.so."+v, soFile("amd64", ""))...), nil, []string{"error: library-directory: libcuda.so.1 is in none of the folders that consumers search: /usr/lib64, /usr/lib/x86_64-linux-gnu, /usr/lib/aarch64-linux-gnu, /lib64, /lib/x86_64-linux-gnu, /lib/aarch64-linux-gnu"}},
		"wrong firmware":  {put("usr/lib/firmware/nvidia/550.54.14/gsp.bin", ""), nil, []string{"error: firmware: usr/lib/firmware/nvidia/550.54.14: is firmware of another driver than 535.261.03"}},
		"no firmware":     {gone("usr/share/nvidia-driver/firmware"), nil, []string{noFirmware, "error: firmware: there is no GSP firmware of driver 535.261.03"}},
		"neither":         {gone("usr/share/nvidia-driver/firmware", "usr/src/nvidia-"+v+"/kernel-open"), nil, []string{noFirmware, "note: firmware: there is no GSP firmware of driver 535.261.03"}},
		"other sources":   {put("usr/src/nvidia-550.54.14/kernel/Kbuild", ""), nil, []string{"error: kernel-sources: usr/src/nvidia-550.54.14: are kernel sources of another driver than 535.261.03"}},
		"no sources":      {gone("usr/src"), nil, []string{"error: kernel-sources: no kernel sources in /usr/src/nvidia-535.261.03, and no modules: no node can use the image"}},
		"dynamic":         {put("usr/local/bin/driver-entrypoint", string(imagetest.ELF{Program: true}.Bytes())), nil, []string{"error: entrypoint: usr/local/bin/driver-entrypoint: is not static: it would depend on the libraries of the base"}},
		"script":          {put("usr/local/bin/driver-entrypoint", "#!/bin/sh\nexec something that is longer than the header of an ELF file, so that it is read to its end\n"), nil, []string{"error: entrypoint: usr/local/bin/driver-entrypoint: not an ELF file: it begins with 23 21 2f 62"}},
		"entrypoint arch": {put("usr/local/bin/driver-entrypoint", string(imagetest.ELF{Static: true, Arch: "arm64"}.Bytes())), nil, []string{"error: entrypoint: usr/local/bin/driver-entrypoint: is for EM_AARCH64, the image for amd64"}},
		"no link":         {gone("usr/local/bin/nvidia-driver"), func(c *v1.Config) { c.Entrypoint = []string{"/bin/sh"} }, []string{"error: entrypoint: nvidia-driver is not on PATH: the GPU Operator starts the image with that command"}},
		"starts nothing":  {nil, func(c *v1.Config) { c.Entrypoint, c.Cmd = nil, nil }, []string{"error: entrypoint: the image starts nothing: set an entrypoint"}},
		"starts missing":  {nil, func(c *v1.Config) { c.Entrypoint = []string{"/init"} }, []string{"error: entrypoint: /init: is what the image starts, but is not there or not executable"}},
		"no licence":      {gone("licenses"), nil, []string{"error: licence: NVIDIA's licence is not in /licenses: its terms ask that it goes with the driver"}},
		"no nvidia-smi":   {gone("usr/bin/nvidia-smi"), nil, []string{"error: programs: nvidia-smi is not on PATH", "error: programs: nvidia-smi is in none of /usr/bin, /usr/sbin, /bin, /sbin, where consumers look for it"}},
		"nvidia-smi":      {append(gone("usr/bin/nvidia-smi"), put("usr/local/bin/nvidia-smi", string(imagetest.ELF{Program: true}.Bytes()))...), nil, []string{"error: programs: nvidia-smi is in none of /usr/bin, /usr/sbin, /bin, /sbin, where consumers look for it"}},
		"no modprobe":     {gone("usr/sbin/modprobe"), nil, []string{"error: programs: modprobe is not on PATH"}},
		"undescribed":     {gone(driverinfo.Path), nil, []string{"error: description: " + driverinfo.Path + ": is not there: the entrypoint cannot know which driver it has"}},
		"somebody else's": {gone(driverinfo.Path, "usr/local/bin/driver-entrypoint", "usr/local/bin/nvidia-driver"), func(c *v1.Config) { c.Entrypoint = []string{"/bin/sh"} }, []string{"error: entrypoint: nvidia-driver is not on PATH: the GPU Operator starts the image with that command"}},
		"damaged":         {put(driverinfo.Path, "{"), nil, []string{"error: description: " + driverinfo.Path + ": /" + driverinfo.Path + ": not a valid description of a driver image: unexpected EOF: build the image again"}},
		"other driver": {put(driverinfo.Path, described(t, good, func(i *driverinfo.Description) { i.Driver = "550.54.14" })), nil, []string{
			"error: description: " + driverinfo.Path + `: driver is "550.54.14", that of the libraries is "535.261.03"`,
		}},
		"env version": {nil, env("DRIVER_VERSION", "DRIVER_VERSION=1.2"), []string{"error: environment: DRIVER_VERSION is 1.2, the libraries are 535.261.03"}},
		"env void":    {nil, env("NVIDIA_VISIBLE_DEVICES", "X=1"), []string{`note: environment: NVIDIA_VISIBLE_DEVICES is "": without "void" the container runtime may inject a driver into the driver's container`}},
		"no PATH":     {nil, env("PATH", "X=1"), nil},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			findings := require.Value(examiner(r.b).Verify(t.Context(), what, changed(t, good, c.files, c.config), verify.Options{}))(t)
			unfit := false
			var got []string
			for _, f := range findings {
				if strings.Contains(f.Message, "needs libX11.so.6") || f.Severity == verify.Note && (f.Rule == "layers" || f.Rule == "fabric") {
					continue // in the good image, too
				}
				got = append(got, f.String())
				unfit = unfit || f.Severity == verify.Error
			}
			assert.Same(t, c.want, got)
			assert.Equalf(t, unfit, errors.Is(verify.Unfit(findings), verify.ErrUnfit), "Unfit: %v", verify.Unfit(findings))
		})
	}
}

// TestVerifyStranger: an image that has no driver at all, and one without packages.
func TestVerifyStranger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	img := imagetest.Image(t, "arm64", v1.Config{}, repotest.Compress(t, ".gz", repotest.Tar(t, "", []repotest.File{{Name: "etc/motd", Body: "hello"}})))
	findings := require.Value(examiner(r.b).Verify(t.Context(), "x", img, verify.Options{}))(t)
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(f.String() + "\n")
	}
	golden(t, r.World, "verify-stranger.txt", b.String())
	i, err := examiner(r.b).Inspect(t.Context(), "x", img)
	assert.Equalf(t, false, err != nil || i.Driver != "" || len(i.Packages) != 0, "%+v, %v", i, err)
	broken := imagetest.Image(t, "arm64", v1.Config{}, repotest.Compress(t, ".gz", []byte("no tar")))
	assert.Errorf(t, assert.Err(examiner(r.b).Verify(t.Context(), "x", broken, verify.Options{})), "a broken layer was verified")
	assert.Errorf(t, assert.Err(examiner(r.b).Inspect(t.Context(), "x", broken)), "a broken layer was inspected")
}

func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}
