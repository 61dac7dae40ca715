package images

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
)

// fabricFiles are the files of a component, in the layout of NVIDIA's archives.
func fabricFiles(component, version string) map[string]string {
	elf := func(e imagetest.ELF) string { e.Arch = "amd64"; return string(e.Bytes()) }
	program := func(name string, needed ...string) string {
		return elf(imagetest.ELF{Program: true, Note: name + " " + version, Needed: append(needed, "libc.so.6")})
	}
	library := func(soname string) string {
		return elf(imagetest.ELF{Soname: soname, Needed: []string{"libc.so.6"}, Note: soname})
	}
	files := map[string]string{"LICENSE": "licence of " + component + "\n"}
	switch component {
	case matrix.FabricManager:
		files["bin/nv-fabricmanager"], files["bin/nvidia-fabricmanager-start.sh"] = program("fm"), "#!/bin/bash\n"
		files["lib/libnvfm.so.1"], files["lib/libnvfm.so"] = library("libnvfm.so.1"), "-> libnvfm.so.1"
		files["etc/fabricmanager.cfg"], files["share/nvidia/nvswitch/dgxh100_hgxh100_topology"] = "DAEMONIZE=1\n", "topology"
		files["systemd/nvidia-fabricmanager.service"], files["third-party-notices.txt"] = "[Unit]\n", "notices\n"
	case matrix.NVLSM:
		files["sbin/nvlsm"], files["lib/libgrpc_mgr.so"], files["share/nvidia/nvlsm/nvlsm.conf"] = program("nvlsm"), library("libgrpc_mgr.so"), "guid 0\n"
	case matrix.IMEX:
		files["bin/nvidia-imex"], files["bin/nvidia-imex-ctl"] = program("imex"), program("imex-ctl")
	case matrix.NSCQ:
		files["lib/libnvidia-nscq.so."+version] = library("libnvidia-nscq.so.2")
	}
	return files
}

// componentNames are the names in the top folders of archives.
var componentNames = map[string]string{matrix.FabricManager: "fabricmanager", matrix.NVLSM: "nvlsm", matrix.IMEX: "nvidia-imex", matrix.NSCQ: "libnvidia_nscq"}

func fabricArchive(t *testing.T, top string, files map[string]string) []byte {
	t.Helper()
	var all []repotest.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := repotest.File{Name: name, Body: files[name], Mode: 0o755}
		if target, link := strings.CutPrefix(f.Body, "-> "); link {
			f.Body, f.Link = "", target
		}
		all = append(all, f)
	}
	return repotest.Compress(t, ".xz", repotest.Tar(t, top+"/", all))
}

// withFabric gives a target components with these files; a version of "" is the driver's.
func (r *rig) withFabric(t *testing.T, target matrix.Target, versions map[string]string, change func(name string, files map[string]string)) matrix.Target {
	t.Helper()
	target.Driver.Components = matrix.Components{}
	for name, version := range versions {
		if version == "" {
			version = target.Driver.Version
		}
		files := fabricFiles(name, version)
		if change != nil {
			change(name, files)
		}
		top := componentNames[name] + "-linux-x86_64-" + version + "-archive"
		data := fabricArchive(t, top, files)
		r.Put("/redist/"+top+".tar.xz", data)
		target.Driver.Components[name] = map[string]matrix.Archive{target.Arch: {URL: r.URL + "/redist/" + top + ".tar.xz", SHA256: fmt.Sprintf("%x", sha256.Sum256(data)), Size: int64(len(data))}}
	}
	return target
}

// ibstat adds the packages that the components need to the world's repositories.
func (r *rig) ibstat(systems ...string) {
	for _, system := range systems {
		a := r.Archives[system]
		for _, p := range []struct{ name, file, soname string }{{"infiniband-diags", "usr/sbin/ibstat", ""}, {"zlib1g", libDir + "/libz.so.1", "libz.so.1"}} {
			program := imagetest.ELF{Arch: "amd64", Program: p.soname == "", Soname: p.soname, Needed: []string{"libc.so.6"}, Note: p.name}
			a.Packages = append(a.Packages, repotest.Deb{
				Control: fmt.Sprintf("Package: %s\nVersion: 1.0\nArchitecture: amd64\nDescription: for tests", p.name),
				Files:   []repotest.File{{Name: p.file, Mode: 0o755, Body: string(program.Bytes())}},
			})
		}
		a.Publish()
	}
}

var allComponents = map[string]string{matrix.FabricManager: "", matrix.IMEX: "", matrix.NSCQ: "", matrix.NVLSM: "2025.06.5"}

// TestFabric: the components are one layer that systems share, at the places of NVIDIA's packages, with their
// licences and what their start needs; nothing of it is there without them.
func TestFabric(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ibstat("ubuntu16.04", "ubuntu18.04")
	build := func(system string, o recipe.Options) (*recipe.Recipe, []string) {
		target := r.withFabric(t, r.target(t, pair(system, newDriver)), allComponents, nil)
		planned, img := made(t, r.b, target, o)
		findings, err := examiner(r.b).Verify(t.Context(), system, img, verify.Options{})
		require.NoError(t, err)
		assert.Equalf(t, false, slices.ContainsFunc(findings, func(f verify.Finding) bool { return f.Rule == "fabric" }), "%s: %v", system, findings)
		tree := treeOf(t, img)
		wantPaths(t, tree, true,
			"usr/bin/nv-fabricmanager", "usr/bin/nvidia-imex", "usr/bin/nvidia-imex-ctl", libDir+"/libnvfm.so.1", libDir+"/libnvfm.so",
			"usr/share/nvidia/nvswitch/fabricmanager.cfg", "usr/share/nvidia/nvswitch/dgxh100_hgxh100_topology", "opt/nvidia/nvlsm/sbin/nvlsm",
			"opt/nvidia/nvlsm/lib/libgrpc_mgr.so", "usr/share/nvidia/nvlsm/nvlsm.conf", "licenses/fabricmanager.txt", "licenses/nvlsm.txt",
			"licenses/fabricmanager-third-party-notices.txt", "usr/sbin/ibstat")
		assert.Equalf(t, false, tree.Exists("usr/lib/systemd/system/nvidia-fabricmanager.service"), "a unit")
		assert.Equalf(t, o.Profile != recipe.CUDA, tree.Exists(libDir+"/libnvidia-nscq.so.2"), "NSCQ")
		i := require.Value(examiner(r.b).Inspect(t.Context(), system, img))(t)
		assert.Equalf(t, "2025.06.5", i.Components[matrix.NVLSM], "inspect")
		config := require.Value(img.ConfigFile())(t)
		var digests []string
		for n, l := range layersOf(t, img) {
			if strings.HasSuffix(config.History[n].CreatedBy, ": "+recipe.FabricLayer) {
				digests = append(digests, digestOf(t, l))
			}
		}
		return planned, digests
	}
	one, first := build("ubuntu16.04", recipe.Options{})
	_, second := build("ubuntu18.04", recipe.Options{})
	assert.Equalf(t, true, len(first) == 1 && slices.Equal(first, second), "fabric layers %q and %q", first, second)
	build("ubuntu18.04", recipe.Options{Profile: recipe.CUDA})
	assert.Equalf(t, 4, len(one.Fabric), "components in the recipe")
	without := r.target(t, pair("ubuntu16.04", newDriver))
	plain := require.Value(planOne(t, r.b, without, recipe.Options{}))(t)
	if len(plain.Fabric) != 0 || slices.ContainsFunc(plain.Packages, func(p distros.Package) bool { return p.Name == "infiniband-diags" }) {
		t.Errorf("a driver without components has %v", plain.Fabric)
	}
}

// TestFabricBilled: each component has its own licence in a bill of materials, with its text; one whose text
// is the driver's has the driver's.
func TestFabricBilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ibstat("ubuntu18.04")
	target := r.withFabric(t, r.target(t, pair("ubuntu18.04", newDriver)), allComponents, func(name string, files map[string]string) {
		if name == matrix.NSCQ {
			files["LICENSE"] = "NVIDIA's licence of " + newDriver + "\n"
		}
	})
	planned, img := made(t, r.b, target, recipe.Options{})
	m := documents.Model{Images: []*documents.ImageContent{billed(t, r.b, img, planned)}}
	doc := readSPDX(t, document(t, documents.SPDX, m))
	licences := map[string]string{}
	for _, p := range doc.Packages {
		licences[string(p.PackageSPDXIdentifier)] = p.PackageLicenseDeclared
	}
	for name, want := range map[string]string{
		"Component-amd64-imex": "LicenseRef-NVIDIA-imex", "Component-amd64-fabricmanager": "LicenseRef-NVIDIA-fabricmanager", "Component-amd64-nvlsm": "LicenseRef-NVIDIA-nvlsm",
		"Component-amd64-nscq": "LicenseRef-NVIDIA-Driver", "Driver-amd64": "LicenseRef-NVIDIA-Driver",
	} {
		assert.Equalf(t, want, licences[name], "licence of %s", name)
	}
	texts := map[string]string{}
	for _, l := range doc.OtherLicenses {
		texts[l.LicenseIdentifier] = l.LicenseName + ": " + l.ExtractedText
	}
	assert.Equal(t, 4, len(texts))
	assert.Equal(t, "NVIDIA Proprietary (imex): licence of imex\n", texts["LicenseRef-NVIDIA-imex"])
	assert.Equal(t, "NVIDIA Driver (fabricmanager): licence of fabricmanager\n", texts["LicenseRef-NVIDIA-fabricmanager"])
	cyclonedx := string(document(t, documents.CycloneDX, m))
	assert.Contains(t, cyclonedx, `"name": "NVIDIA Proprietary (imex)"`)
	assert.Contains(t, cyclonedx, "licence of imex")
}

// TestFabricRefused: what is in an archive is compared with the matrix, and a download that fails says what
// is missing and how to do without.
func TestFabricRefused(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(name string, files map[string]string)
		why    []string
	}{
		"no licence": {func(_ string, f map[string]string) { delete(f, "LICENSE") }, []string{"it has no LICENSE"}},
		"no program": {func(_ string, f map[string]string) { delete(f, "bin/nv-fabricmanager") }, []string{"component fabricmanager has no usr/bin/nv-fabricmanager"}},
		"link out":   {func(_ string, f map[string]string) { f["lib/libnvfm.so"] = "-> ../../../etc/passwd" }, []string{"leads to"}},
		"another architecture": {func(_ string, f map[string]string) {
			f["bin/nv-fabricmanager"] = string(imagetest.ELF{Arch: "arm64", Program: true}.Bytes())
		}, []string{"EM_AARCH64"}},
		"two files of one name": {func(_ string, f map[string]string) { f["share/nvidia/nvswitch/fabricmanager.cfg"] = "x" }, []string{"two components or folders have"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.ibstat("ubuntu18.04")
			target := r.withFabric(t, r.target(t, pair("ubuntu18.04", newDriver)), map[string]string{matrix.FabricManager: ""}, c.change)
			wantContent(t, refused(t, r.b, target), append(c.why, "component")...)
		})
	}
	t.Run("another archive", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.ibstat("ubuntu18.04")
		target := r.withFabric(t, r.target(t, pair("ubuntu18.04", newDriver)), map[string]string{matrix.FabricManager: "550.1.1"}, nil)
		a := target.Driver.Components[matrix.FabricManager]["amd64"]
		r.Put("/redist/fabricmanager-linux-x86_64-535.261.03-archive.tar.xz", r.File(strings.TrimPrefix(a.URL, r.URL)))
		a.URL = r.URL + "/redist/fabricmanager-linux-x86_64-535.261.03-archive.tar.xz"
		target.Driver.Components[matrix.FabricManager]["amd64"] = a
		assert.ErrorContains(t, refused(t, r.b, target), "the archive is \"fabricmanager-linux-x86_64-550.1.1-archive\", not fabricmanager-linux-x86_64-535.261.03")
		a.Size--
		target.Driver.Components[matrix.FabricManager]["amd64"] = a
		assert.ErrorContains(t, refused(t, newBuilder(t, r.World, t.TempDir()), target), "fabricmanager", fmt.Sprint(a.Size), fmt.Sprint(a.Size+1))
	})
	t.Run("no network", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.ibstat("ubuntu18.04")
		target := r.withFabric(t, r.target(t, pair("ubuntu18.04", newDriver)), map[string]string{matrix.FabricManager: ""}, nil)
		planned := require.Value(planOne(t, r.b, target, recipe.Options{}))(t)
		planned.Fabric[0].File.URL = "http://127.0.0.1:1/fabricmanager-linux-x86_64-535.261.03-archive.tar.xz"
		sum := planned.Fabric[0].File.SHA256
		for _, try := range []func() error{
			func() error { _, err := r.b.Build(t.Context(), planned); return err },
			func() error { return assert.Err(r.b.Download(t.Context(), planned)) },
		} {
			assert.ErrorContains(t, try(), "component fabricmanager of driver 535.261.03", "is missing", "127.0.0.1:1/fabricmanager-linux-x86_64-535.261.03-archive.tar.xz", sum, "driver-build fetch", "--no-fabric")
		}
	})
}

// TestFabricVerified: verify finds a fabric manager that does not fit, also in images of others.
func TestFabricVerified(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ibstat("ubuntu18.04")
	target := r.withFabric(t, r.target(t, pair("ubuntu18.04", newDriver)), allComponents, nil)
	_, img := made(t, r.b, target, recipe.Options{})
	img = undescribed(t, img)
	for what, c := range map[string]struct {
		path, body string // body "": removed
		want       string
	}{
		"another program":      {"usr/bin/nv-fabricmanager", string(imagetest.ELF{Program: true, Note: "fm 550.1.1"}.Bytes()), "does not hold the version of the driver"},
		"no fabric manager":    {"usr/bin/nv-fabricmanager", "", "no fabric manager: on a machine with NVLink switches"},
		"no topology":          {"usr/share/nvidia/nvswitch/dgxh100_hgxh100_topology", "", "has no topology"},
		"no library":           {libDir + "/libnvfm.so.1", "", "needs libnvfm.so.1"},
		"no zlib":              {libDir + "/libz.so.1", "", "needs libz.so.1"},
		"no ibstat":            {"usr/sbin/ibstat", "", "ibstat is not on PATH"},
		"no list of this kind": {recipe.ComponentsFile, "", ""},
	} {
		files := gone(c.path)
		if c.body != "" {
			files = []repotest.File{{Name: c.path, Body: c.body, Mode: 0o755}}
		}
		findings := require.Value(examiner(r.b).Verify(t.Context(), what, changed(t, img, files, nil), verify.Options{}))(t)
		var fabric []string
		for _, f := range findings {
			if f.Rule == "fabric" {
				fabric = append(fabric, f.Message)
			}
		}
		if all := strings.Join(fabric, "; "); !strings.Contains(all, c.want) || (c.want == "") != (all == "") {
			t.Errorf("%s: %s", what, all)
		}
	}
}
