package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
)

// add calls matrix add-driver, wants an exit code and parts of what it says, and returns the entry that it prints as the
// matrix reads it.
func (u *user) add(t *testing.T, args string, code int, parts ...string) (r result, d matrix.Driver) {
	t.Helper()
	u.Env["SOURCE_DATE_EPOCH"] = "1800000000"
	if !strings.Contains(args, "--redist") {
		args += " --redist none"
	}
	r = call(t.Context(), t, u.Env, append(strings.Fields("matrix add-driver "+args), "--cache", u.Cache, "--progress", "plain")...).Want(t, code, parts...)
	if r.Stdout != "" {
		const system = "systems: [{id: debian12, base: 'debian:12', archs: [amd64], kernels: [6.1]}]\ndrivers:\n"
		d = require.Value(matrix.Parse("entry", []byte(system+r.Stdout)))(t).Drivers[0]
	}
	return r, d
}

// TestMatrixInit: the matrix that it writes is read by all commands, with its patches, and nothing is overwritten.
func TestMatrixInit(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	dir := u.Path("mine")
	run := func(args string) result {
		return call(t.Context(), t, u.Env, append(strings.Fields("matrix init --output "+dir), strings.Fields(args)...)...)
	}
	const pair = "--os debian12,ubuntu22.04 --driver 535.261.03"
	r := run(pair).Want(t, 0)
	patch := filepath.Join(dir, "patches/535.261.03/open-pci-resize-resource.patch")
	assert.Equal(t, filepath.Join(dir, "matrix.yaml")+"\n"+patch+"\n", r.Stdout)
	file := filepath.Join(dir, "matrix.yaml")
	r = call(t.Context(), t, u.Env, "list", "--matrix", file, "--arch", "amd64").Want(t, 0)
	assert.Equalf(t, 3, strings.Count(r.Stdout, "\n"), "%s", r.Stdout)
	run(pair).Want(t, 0)
	run("--os ubuntu22.04 --driver 580.178.04").Want(t, 2, "matrix.yaml is there already, with other content")
	run("--matrix "+file+" --os debian12 --driver 580.178.04").Want(t, 2, `driver "580.178.04"`)
	run("--os debian13 --driver 418.87.01").Want(t, 2, "kernel-too-new")
	run("--os debian13").Want(t, 2, "give --os and --driver")
	require.NoError(t, os.Remove(patch))
	run("--matrix "+file+" --os debian12 --driver 535.261.03").Want(t, 2, "open-pci-resize-resource.patch")
}

func TestAddDriver(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r, d := u.add(t, "580.159.04", 0)
	goldentest.Compare(t, "testdata/add-driver.yaml", r.Stdout)
	assert.Equalf(t, true, len(d.Archives) == 2 && d.Kernel.Max == "7.1" && len(d.Flavours) == 2, "%+v", d)
	// A limit that no source names is left out.
	r, d = u.add(t, "535.104.05 --arch arm64 --arch arm64", 0, "note: kernel max of 535.104.05 is not known and was left out")
	assert.Equalf(t, true, len(d.Archives) == 1 && d.Kernel.Max == "" && d.Kernel.Min == "3.10", "%+v", d)
	for args, parts := range map[string][]string{
		"418.87.01":                        {"driver 418.87.01 is there already"},
		"418.87.1":                         {"is there already as 418.87.01"},
		"535.54.3":                         {"is written 535.54.03"},
		"535.":                             {"no driver version"},
		"":                                 {"usage: driver-build matrix add-driver VERSION"},
		"580.159.05":                       {"no source knows an archive", "--redist", "did you mean 580.159.0"},
		"590.48.02":                        {"no source knows an archive", "did you mean 590.44.01"},
		"999.1":                            {"no source knows an archive", "no driver of branch R999"},
		"390.154 --arch arm64":             {"no address of driver 390.154 for arm64", "--url arm64=URL"},
		"390.154 --arch sparc":             {`"sparc"`, "amd64, arm64"},
		"390.154 --url sparc=x":            {"arm64=URL"},
		"999.1 --url https://x/y.exe":      {"must have a path that ends in .run or -archive.tar.xz"},
		"999.1 --url https://a:b@x/NV.run": {"no user name or password"},
	} {
		r, _ := u.add(t, args+" --releases none", 2, parts...)
		assert.Equal(t, "", r.Stdout)
	}
}

func TestAddDriverSources(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const name = "/tesla/535.400.01/NVIDIA-Linux-x86_64-535.400.01.run"
	data := []byte("not really a driver")
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	u.Put(name, data)
	fresh := " --releases " + u.file(t, "releases.json", strings.ReplaceAll(freshReleases, "URL", u.URL))

	u.add(t, "535.400.01"+fresh, 2, "no checksum is known for driver 535.400.01 amd64", "--download")
	r, d := u.add(t, "535.400.01 --download"+fresh, 0)
	assert.Equal(t, matrix.Archive{URL: u.URL + name, SHA256: sum, Size: int64(len(data))}, d.Archives["amd64"])
	assert.Containsf(t, r.Stdout, "# sha256 from a download alone; added 2027-01-15\n", "the comment does not say where the checksum comes from")
	beside := func(sum, file string) {
		u.Put(name+".sha256sum", []byte(sum+"  "+file+"\n"))
	}
	beside(strings.ToUpper(sum), "*./x/NVIDIA-Linux-x86_64-535.400.01.run")
	r, d = u.add(t, "535.400.01"+fresh, 0)
	assert.Contains(t, r.Stdout, "# sha256 from the .sha256sum file beside the archive; added 2027-01-15\n")
	assert.Equal(t, matrix.Archive{URL: u.URL + name, SHA256: sum}, d.Archives["amd64"])
	// Sources that disagree are refused.
	beside(strings.Repeat("0", 64), "NVIDIA-Linux-x86_64-535.400.01.run")
	u.add(t, "535.400.01 --download --releases none --url "+u.URL+name, 5, "two sources disagree about NVIDIA-Linux-x86_64-535.400.01.run", "beside the archive says", "a download says")
	u.add(t, "580.159.04 --url "+u.URL+name+" --arch amd64 --download", 5, "two sources disagree", "(table of driver-build) says sha256 c1e66761b088d17b3adf6cb6979de9af38be2684d102b001a176dcfafabdca1e and 397162548 bytes",
		"a download says", "and 19 bytes")
	// A checksum file that cannot be read, or that belongs to another archive, counts as missing.
	beside(sum, "NVIDIA-Linux-x86_64-535.1.run")
	u.add(t, "535.400.01"+fresh, 2, "sha256sum: it is of another file", "no checksum is known")
	u.Fault(refuse(502, ""))
	u.add(t, "535.400.01 --download"+fresh, 4, "502")
}

// manifestOf is a manifest as NVIDIA writes it, of a driver for amd64 alone.
func manifestOf(version, sum string, size int) string {
	return fmt.Sprintf(`{"release_date": "2026-09-01", "release_label": %[1]q, "release_product": "nvidia-driver",
  "nvidia_driver": {"name": "NVIDIA Linux Driver", "license": "NVIDIA Driver", "license_path": "nvidia_driver/LICENSE.txt", "version": %[1]q,
    "linux-x86_64": {"relative_path": "nvidia_driver/linux-x86_64/nvidia_driver-linux-x86_64-%[1]s-archive.tar.xz",
      "sha256": %[2]q, "md5": "0", "size": "%[3]d"}}}`, version, sum, size)
}

// TestAddDriverFromManifest: a release that no table has is added from its manifest, and what contradicts the
// manifest is refused.
func TestAddDriverFromManifest(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	data := []byte("not really a driver")
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	const name = "nvidia_driver/linux-x86_64/nvidia_driver-linux-x86_64-630.10.01-archive.tar.xz"
	u.Put("/redist/redistrib_630.10.01.json", []byte(manifestOf("630.10.01", sum, len(data))))
	u.Put("/redist/"+name, data)
	from := " --releases none --redist " + u.URL + "/redist/redistrib_630.10.01.json"

	r, d := u.add(t, "630.10.01"+from, 0)
	want := matrix.Archive{URL: u.URL + "/redist/" + name, SHA256: sum, Size: int64(len(data))}
	assert.Same(t, map[string]matrix.Archive{"amd64": want}, d.Archives)
	assert.Containsf(t, r.Stdout, "# sha256 from the manifest "+u.URL+"/redist/redistrib_630.10.01.json; added 2027-01-15\n", "the comment")
	u.add(t, "630.10.01 --download"+from, 0)
	// A file's paths are relative to NVIDIA's folder.
	file := u.file(t, "redistrib_630.10.01.json", manifestOf("630.10.01", sum, 19))
	r, _ = u.add(t, "630.10.01 --releases none --redist "+file, 0)
	assert.Contains(t, r.Stdout, "url: https://developer.download.nvidia.com/compute/nvidia-driver/redist/"+name)
	assert.Contains(t, r.Stdout, "# sha256 from the manifest redistrib_630.10.01.json; added")
	// The manifest of a release with cuda_compat names the CUDA version of the driver.
	compat := strings.TrimSuffix(manifestOf("630.10.01", sum, 19), "}") +
		`, "cuda_compat": {"name": "CUDA Compat", "version": "630.10.01", "cuda_variant": ["13.7"], "linux-x86_64": {"cuda13.7": {"relative_path": "c", "sha256": "` + sum + `", "size": "1"}}}}`
	r, d = u.add(t, "630.10.01 --releases none --redist "+u.file(t, "compat.json", compat), 0)
	assert.Equal(t, "13.7", d.CUDA)

	for args, c := range map[string]struct {
		code  int
		parts []string
	}{
		"630.10.02" + from:                                                  {2, []string{"is the manifest of driver 630.10.01, not of 630.10.02"}},
		"630.10.01 --arch arm64" + from:                                     {2, []string{"its manifest has no nvidia_driver for linux-sbsa", "--url arm64=URL"}},
		"630.10.01 --redist " + u.URL + "/x.json":                           {4, []string{"--redist", "/x.json"}},
		"630.10.01 --releases none --redist " + u.file(t, "bad.json", "{}"): {2, []string{"no manifest of driver archives", "no component nvidia_driver"}},
		"630.10.01 --download --releases none --redist " + u.serve("/lie/redistrib_630.10.01.json", manifestOf("630.10.01", sum, 20), "/lie/"+name, data): {
			5, []string{"two sources disagree about nvidia_driver-linux-x86_64-630.10.01-archive.tar.xz", "redistrib_630.10.01.json says", "and 20 bytes", "a download says", "and 19 bytes"}},
	} {
		u.add(t, args, c.code, c.parts...)
	}
	// The table of the program is a second opinion, also where the user has a manifest.
	small := u.file(t, "small.yaml", u.Matrix())
	r = u.Run(t, strings.Fields("matrix add-driver 580.178.04 --releases none --matrix "+small+" --redist "+u.file(t, "redistrib_580.178.04.json", manifestOf("580.178.04", sum, 19)))...)
	r.Want(t, 5, "two sources disagree about nvidia_driver-linux-x86_64-580.178.04-archive.tar.xz", "siderolabs/pkgs (table of driver-build) says", "redistrib_580.178.04.json says")
	// So is the matrix, for drivers --redist; it also names the release and its CUDA version.
	r = u.tool(t, "drivers --releases none --redist "+u.file(t, "redistrib_630.10.01.json", manifestOf("630.10.01", sum, 19))).Want(t, 0)
	assert.Contains(t, r.Stdout, "R630")
	mine := u.file(t, "mine.yaml", strings.Replace(u.Matrix(), "drivers:\n", "drivers:\n  - version: 630.10.01\n    archives: {amd64: {url: "+u.URL+"/redist/"+name+", sha256: "+sum+"}}\n", 1))
	r = u.Run(t, strings.Fields("drivers --releases none --matrix "+mine+" --redist "+u.file(t, "other.json", manifestOf("630.10.01", strings.Repeat("a", 64), 19)))...)
	r.Want(t, 5, "the matrix says sha256 "+sum, "other.json says sha256 aaaa")
}

// serve puts a text and a file onto the server and returns the text's address.
func (u *user) serve(name, text, file string, data []byte) string {
	u.Put(name, []byte(text))
	u.Put(file, data)
	return u.URL + name
}
