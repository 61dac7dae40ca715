package images

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/signedmodules"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod/sign"
)

const (
	signedKernel = "5.4.0-216-generic"
	otherKernel  = "5.4.0-99-generic"
)

// canonical is the key of the distribution.
var canonical = sync.OnceValue(func() *sign.Signer {
	name := pkix.Name{CommonName: "Canonical Ltd. Kernel Module Signing"}
	pair := testcert.Of(testcert.RSA(), x509.Certificate{SerialNumber: big.NewInt(9), Subject: name}, nil)
	return &sign.Signer{Key: pair.Key, Certificate: pair.Certificate}
})

// signedTail is the signature of a module, as it is appended to it.
func signedTail(t *testing.T, module []byte) []byte {
	t.Helper()
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	require.NoError(t, os.WriteFile(from, module, 0o600))
	der := require.Value(canonical().Sign(t.Context(), bytes.NewReader(module), crypto.SHA256))(t)
	require.NoError(t, sign.Attach(t.Context(), from, to, der))
	return require.Value(os.ReadFile(to))(t)[len(module):]
}

// canonicalModules are the modules of a flavour, without signatures.
func canonicalModules(driver, kernel string) map[string][]byte {
	all := map[string][]byte{}
	for _, name := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset"} {
		all[name] = imagetest.Module(strings.ReplaceAll(name, "-", "_"), driver, kernel)
	}
	return all
}

// canonicalPackages are Canonical's packages with the modules of a driver for a kernel, in the layout of
// linux-restricted-modules: open ones signed, the others as objects and signatures.
func canonicalPackages(t *testing.T, driver, kernel string) (all []repotest.Deb) {
	t.Helper()
	deb := func(name, depends string, files ...repotest.File) repotest.Deb {
		control := "Package: " + name + "\nVersion: 5.4.0-216.236\nArchitecture: amd64\nDescription: modules"
		if depends != "" {
			control += "\nDepends: " + depends
		}
		return repotest.Deb{Control: control, Files: files}
	}
	of := func(flavour string) string {
		common := "nvidia-kernel-common-535-server"
		return fmt.Sprintf("linux-image-%s | linux-image-unsigned-%s, %s (<= %s-1), %s (>= %s)", kernel, kernel, common, driver, common, driver) + flavour
	}
	folder := "lib/modules/" + kernel + "/kernel/nvidia-535srv"
	bits := folder + "/bits/"
	open := []repotest.File{}
	objects := []repotest.File{{Name: bits + "scripts/module.lds", Body: "SECTIONS {}"}}
	signatures := []repotest.File{{Name: "lib/modules/" + kernel + "/kernel/nvidia-470/bits/nvidia.ko.sig", Body: "another driver's"}}
	script := []string{`[ "$1" = "unsigned" ] && { signed_only=:; shift; }`, `export ELF_PACKAGE_METADATA='{"type":"deb"}'`}
	var sums []string
	modules := canonicalModules(driver, kernel)
	for _, name := range []string{"nvidia", "nvidia-modeset", "nvidia-uvm"} {
		module := modules[name]
		signature := signedTail(t, module)
		open = append(open, repotest.File{Name: folder + "-open/" + name + ".ko", Body: string(module) + string(signature)})
		objects = append(objects, repotest.File{Name: bits + name + "/" + name + ".o", Body: "object"})
		signatures = append(signatures, repotest.File{Name: bits + name + ".ko.sig", Body: string(signature)})
		script = append(script, fmt.Sprintf("  /usr/bin/ld.bfd -r -m elf_x86_64 --build-id=sha1 -T scripts/module.lds -o %s.ko %s/%s.o ; true", name, name, name))
		sums = append(sums, fmt.Sprintf("%x *%s.ko", sha256.Sum256(module), name))
	}
	script = append(script, "$check_only sha256sum -c SHA256SUMS || exit 1", "$signed_only cat 'nvidia.ko' 'nvidia.ko.sig' >'../nvidia.ko'")
	for name, lines := range map[string][]string{"BUILD": script, "SHA256SUMS": sums} {
		objects = append(objects, repotest.File{Name: bits + name, Body: strings.Join(lines, "\n") + "\n"})
	}
	return []repotest.Deb{
		deb("linux-modules-nvidia-535-server-open-"+kernel, of(""), open...),
		deb("linux-modules-nvidia-535-server-"+kernel, of(", linux-objects-nvidia-535-server-"+kernel)),
		deb("linux-objects-nvidia-535-server-"+kernel, "binutils", objects...),
		deb("linux-signatures-nvidia-"+kernel, "", signatures...),
	}
}

// linker is a runner that links as the distribution did, and is strict about what it gets.
type linker struct {
	fakeRunner
	links  atomic.Int32
	damage string // appended to the modules
}

func (f *linker) Run(ctx context.Context, s runner.Step, dir string, _ func(string)) error {
	f.links.Add(1)
	script := s.Args[len(s.Args)-1]
	bits := "lib/modules/" + signedKernel + "/kernel/nvidia-535srv/bits"
	root := f.root(ctx, s)
	for _, want := range []string{"usr/bin/ld.bfd", bits + "/nvidia/nvidia.o", bits + "/scripts/module.lds"} {
		assert.Equalf(f.t, true, root.Exists(want), "the root to link in has %s", want)
	}
	for _, want := range []string{"cd /" + bits + "\n", "-o nvidia-uvm.ko nvidia-uvm/nvidia-uvm.o\n", " " + compileOutput} {
		assert.Equalf(f.t, true, strings.Contains(script, want), "%q in the script %s", want, script)
	}
	assert.Equalf(f.t, false, strings.Contains(script, "sha256sum"), "only the linker's calls are in the script")
	assert.Equalf(f.t, true, slices.Contains(s.Env, `ELF_PACKAGE_METADATA={"type":"deb"}`), "%q", s.Env)
	for name, module := range canonicalModules(newDriver, signedKernel) {
		content := append(slices.Clone(module), f.damage...)
		require.NoError(f.t, os.WriteFile(filepath.Join(dir, name+".ko"), content, 0o600))
	}
	return nil
}

// signedRig is a rig with an Ubuntu whose repositories have signed modules of newDriver for one kernel.
func signedRig(t *testing.T, change func(all []repotest.Deb) []repotest.Deb) (*rig, *linker) {
	t.Helper()
	r := newRig(t)
	f := &linker{fakeRunner: fakeRunner{t: t}}
	r.b.Runner = func(context.Context) (runner.Runner, error) { return f, nil }
	all := canonicalPackages(t, newDriver, signedKernel)
	if change != nil {
		all = change(all)
	}
	archive := r.Archives["ubuntu18.04"]
	archive.Packages = append(archive.Packages, all...)
	archive.Packages = append(archive.Packages, repotest.Deb{
		Control: "Package: binutils\nVersion: 2.30\nArchitecture: amd64\nDescription: linker",
		Files:   []repotest.File{{Name: "usr/bin/ld.bfd", Body: "linker", Mode: 0o755}},
	})
	for _, kernel := range []string{signedKernel, otherKernel} {
		archive.Packages = append(archive.Packages, repotest.Deb{
			Control: "Package: linux-headers-" + kernel + "\nVersion: 5.4.0-216.236\nArchitecture: amd64\nDescription: headers",
		})
	}
	archive.Publish()
	return r, f
}

func signedOptions(flavour string, kernels ...string) recipe.Options {
	return recipe.Options{Kernels: kernels, SignedModules: true, Flavours: []string{flavour}}
}

// TestSignedModules: an image with the modules that the distribution signed has them byte for byte, was neither
// compiled nor signed, and says whose they are. Those that come as objects are linked.
func TestSignedModules(t *testing.T) {
	t.Parallel()
	r, f := signedRig(t, nil)
	target := r.target(t, pair("ubuntu18.04", newDriver))
	for links, flavour := range []string{driverinfo.Open, driverinfo.Proprietary} {
		r.b.Signer = signers()[0] // has nothing to sign
		planned, img := made(t, r.b, target, signedOptions(flavour, signedKernel))
		assert.Equalf(t, links, int(f.links.Load()), "links")
		assert.Equalf(t, 0, int(f.runs.Load()), "compiles")
		tree := treeOf(t, img)
		set := 0
		for _, e := range tree.All() {
			name, isModule := strings.CutSuffix(filepath.Base(e.Path), ".ko")
			if !isModule {
				continue
			}
			set++
			want := canonicalModules(newDriver, signedKernel)[name]
			whole := string(want) + string(signedTail(t, want))
			assert.Equalf(t, true, whole == read(t, tree, e.Path), "%s is the distribution's", e.Path)
		}
		assert.Equalf(t, 3, set, "modules of the image")
		wantPaths(t, tree, false, "usr/bin/gcc", "usr/bin/ld.bfd", "usr/src/nvidia-"+newDriver)
		info := require.Value(driverinfo.Read(tree.OpenFS()))(t)
		first := planned.Kernels[0].Signed[flavour][0]
		assert.Same(t, []driverinfo.Precompiled{{Kernel: signedKernel, Flavour: flavour, Package: first.Name + " 5.4.0-216.236"}}, info.Precompiled)
		assert.Equalf(t, "", planned.Signer, "signer")
		wantFit(t, r.b, img)
		assert.Equalf(t, 0, len(findingsOf(t, r, img, "module-signature", canonical().Certificate)), "findings with the distribution's key")
		i := require.Value(examiner(r.b).Inspect(t.Context(), "x", img))(t)
		assert.Equalf(t, canonical().Certificate.Subject.CommonName, i.Modules[0].Modules[0].Signer, "signer")
		decoded := require.Value(recipe.Decode(require.Value(json.Marshal(planned))(t)))(t)
		assert.Same(t, planned.Kernels, decoded.Kernels)
		keepsSignatures(t, r, img, first.Name)
	}
}

// keepsSignatures: signatures of the distribution's are not replaced, neither here nor by an offline signer.
func keepsSignatures(t *testing.T, r *rig, img v1.Image, packaged string) {
	t.Helper()
	_, signed := kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", img, kernelmodules.SignaturesBy(signers()[0]))
	all := map[string]v1.Image{"amd64": img}
	_, requested := kernelmodules.RequestSignatures(t.Context(), r.b.Store, filepath.Join(t.TempDir(), "request"), all, false)
	for _, err := range []error{signed, requested} {
		assert.ErrorContains(t, err, "its modules are of "+packaged, "without --modules-from distribution")
		assert.Equalf(t, failure.Usage, failure.KindOf(err), "%v", err)
	}
}

// TestSignedModulesOffered: kernels say for which drivers there are signed modules, and latest is the newest of them.
func TestSignedModulesOffered(t *testing.T) {
	t.Parallel()
	r, _ := signedRig(t, nil)
	target := r.target(t, pair("ubuntu18.04", newDriver))
	offered := require.Value(r.b.Kernels(t.Context(), target, recipe.Options{}))(t)
	want := []distros.SignedDriver{{Driver: newDriver, Flavour: driverinfo.Open}, {Driver: newDriver, Flavour: driverinfo.Proprietary}}
	for _, k := range offered {
		if k.Release == signedKernel {
			assert.Same(t, want, k.Signed)
		} else {
			assert.Equalf(t, 0, len(k.Signed), "%s: %v", k.Release, k.Signed)
		}
	}
	q := Request{Targets: []matrix.Target{target}, Kernels: []string{"all"}, Options: signedOptions(driverinfo.Open)}
	all := require.Value(r.b.Plan(t.Context(), q))(t)
	assert.Equalf(t, true, len(all) == 1 && all[0].Kernels[0].Release == signedKernel, "%v", all)
}

// TestSignedModulesRefused: what repositories do not have is refused in the plan, with what there is instead.
func TestSignedModulesRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		system  string
		change  func([]repotest.Deb) []repotest.Deb
		options recipe.Options
		want    []string
	}{
		"another driver": {
			change:  func([]repotest.Deb) []repotest.Deb { return canonicalPackages(t, "535.288.01", signedKernel) },
			options: signedOptions(driverinfo.Open, signedKernel),
			want:    []string{"of driver 535.288.01", "files of 535.261.03", "--driver 535.288.01", "add-driver"},
		},
		"no such kernel": {options: signedOptions(driverinfo.Open, otherKernel), want: []string{otherKernel, "driver-build kernels"}},
		"another flavour": {
			change:  func(all []repotest.Deb) []repotest.Deb { return all[:1] },
			options: signedOptions(driverinfo.Proprietary, signedKernel),
			want:    []string{"are open, not proprietary", "--flavour open"},
		},
		"no signatures": {
			change:  func(all []repotest.Deb) []repotest.Deb { return all[:3] },
			options: signedOptions(driverinfo.Proprietary, signedKernel),
			want:    []string{"not whole", "linux-signatures-nvidia-" + signedKernel},
		},
		"another system": {system: "debian12", options: signedOptions(driverinfo.Open, imagetest.Kernel), want: []string{"debian12 has no signed modules"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := signedRig(t, c.change)
			system := c.system
			if system == "" {
				system = "ubuntu18.04"
			}
			_, err := planOne(t, r.b, r.target(t, pair(system, newDriver)), c.options)
			assert.ErrorContains(t, err, c.want...)
			assert.Equalf(t, failure.Usage, failure.KindOf(err), "%v", err)
		})
	}
}

// TestSignedModulesHostile: packages that are not what their names say make no image.
func TestSignedModulesHostile(t *testing.T) {
	t.Parallel()
	folder := "lib/modules/" + signedKernel + "/kernel/nvidia-535srv"
	edit := func(in int, name, body string) func([]repotest.Deb) []repotest.Deb {
		return func(all []repotest.Deb) []repotest.Deb {
			files := &all[in].Files
			kept := slices.DeleteFunc(slices.Clone(*files), func(f repotest.File) bool { return f.Name == name })
			if body != "" {
				kept = append(kept, repotest.File{Name: name, Body: body})
			}
			*files = kept
			return all
		}
	}
	unsigned := canonicalModules(newDriver, signedKernel)["nvidia"]
	first := canonicalModules(newDriver, signedKernel)["nvidia-modeset"]
	older := imagetest.Module("nvidia", "535.129.03", signedKernel)
	foreign := imagetest.Module("nvidia", newDriver, otherKernel)
	script := func(line string) func([]repotest.Deb) []repotest.Deb { return edit(2, folder+"/bits/BUILD", line+"\n") }
	for name, c := range map[string]struct {
		flavour string
		change  func([]repotest.Deb) []repotest.Deb
		damage  string
		want    []string
	}{
		"unsigned":             {driverinfo.Open, edit(0, folder+"-open/nvidia.ko", string(unsigned)), "", []string{"nvidia.ko", "no signature"}},
		"of another driver":    {driverinfo.Open, edit(0, folder+"-open/nvidia.ko", string(older)+string(signedTail(t, older))), "", []string{"535.129.03", newDriver}},
		"for another kernel":   {driverinfo.Open, edit(0, folder+"-open/nvidia.ko", string(foreign)+string(signedTail(t, foreign))), "", []string{otherKernel, signedKernel}},
		"half":                 {driverinfo.Open, edit(0, folder+"-open/nvidia-uvm.ko", ""), "", []string{"nvidia-uvm.ko", "is missing"}},
		"twice":                {driverinfo.Open, edit(0, "lib/modules/"+signedKernel+"/updates/nvidia.ko", "x"), "", []string{"twice"}},
		"linked otherwise":     {driverinfo.Proprietary, nil, "x", []string{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(append(slices.Clone(first), 'x'))), fmt.Sprintf("%x", sha256.Sum256(first))}},
		"no signature":         {driverinfo.Proprietary, edit(3, folder+"/bits/nvidia-uvm.ko.sig", ""), "", []string{"nvidia-uvm.ko.sig"}},
		"no sums":              {driverinfo.Proprietary, edit(2, folder+"/bits/SHA256SUMS", ""), "", []string{"SHA256SUMS"}},
		"another command":      {driverinfo.Proprietary, script("rm -rf / ; /usr/bin/ld.bfd -o nvidia.ko nvidia.o"), "", []string{"no call of the linker"}},
		"a path":               {driverinfo.Proprietary, script("/usr/bin/ld.bfd -o ../../nvidia.ko nvidia.o"), "", []string{"no argument of the linker"}},
		"an absolute path":     {driverinfo.Proprietary, script("/usr/bin/ld.bfd -o nvidia.ko /etc/shadow"), "", []string{"no argument of the linker"}},
		"a shell's word":       {driverinfo.Proprietary, script("/usr/bin/ld.bfd -o nvidia.ko `id`"), "", []string{"no argument of the linker"}},
		"no call":              {driverinfo.Proprietary, script("true"), "", []string{"calls no linker"}},
		"a sum of a path":      {driverinfo.Proprietary, edit(2, folder+"/bits/SHA256SUMS", strings.Repeat("0", 64)+" *../nvidia.ko\n"), "", []string{"no sum of a module"}},
		"modules of no kernel": {driverinfo.Open, func(all []repotest.Deb) []repotest.Deb { all[0].Files = all[2].Files[:1]; return all }, "", []string{"there is none for kernel " + signedKernel}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f := signedRig(t, c.change)
			f.damage = c.damage
			planned := require.Value(planOne(t, r.b, r.target(t, pair("ubuntu18.04", newDriver)), signedOptions(c.flavour, signedKernel)))(t)
			_, err := r.b.Build(t.Context(), planned)
			assert.ErrorContains(t, err, c.want...)
			assert.ErrorIs(t, err, signedmodules.ErrPackaged)
			assert.Equalf(t, failure.Content, failure.KindOf(err), "%v", err)
		})
	}
}

// TestSignedModulesRPM: packages of the rpm family, in the repository that the base has switched off or that the row
// names. The kernel is in the package's name or version.
func TestSignedModulesRPM(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		system, repository, kernel, folder string
		name, evr                          string // with the driver as %s
	}{
		{"rhel10", "/extensions", "6.12.0-124.20.1.el10_1.x86_64", "extra/drivers/video/nvidia", "kmod-nvidia-open-%s-6.12.0-124.20.1", "%s-3.el10_1"},
		{"azurelinux3.0", "/nvidia", "6.12.57.1-1.azl3", "updates", "cuda-open-hwe", "%s-1_6.12.57.1.1.azl3"},
	} {
		t.Run(c.system, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, c.system)
			repository := r.Extra(c.repository)
			named := func(form, driver string) string { return strings.Replace(form, "%s", driver, 1) }
			for epoch, driver := range map[string]string{"": newDriver, "3:": "535.999.01"} {
				folder := "lib/modules/" + c.kernel + "/" + c.folder + "/"
				files := []repotest.File{{Name: folder + "gdrdrv.ko", Body: "another module"}}
				for name, module := range canonicalModules(driver, c.kernel) {
					content := string(module) + string(signedTail(t, module))
					packed := string(repotest.Compress(t, ".xz", []byte(content)))
					files = append(files, repotest.File{Name: folder + name + ".ko.xz", Body: packed})
				}
				repository.Packages = append(repository.Packages, repotest.RPM{Name: named(c.name, driver), EVR: epoch + named(c.evr, driver), Files: files})
			}
			repository.Publish()
			planned, img := made(t, r.b, r.target(t), signedOptions(driverinfo.Open, c.kernel))
			assert.Equalf(t, named(c.name, newDriver), planned.Kernels[0].Signed[driverinfo.Open][0].Name, "package")
			tree := treeOf(t, img)
			for _, e := range tree.All() {
				name, isModule := strings.CutSuffix(filepath.Base(e.Path), ".ko")
				if isModule {
					want := canonicalModules(newDriver, c.kernel)[name]
					assert.Equalf(t, true, string(want)+string(signedTail(t, want)) == read(t, tree, e.Path), "%s is the distribution's", e.Path)
				}
			}
			found := findingsOf(t, &rig{r.World, r.b}, img, "module-signature")
			assert.Equalf(t, true, len(found) == 3 && found[0].Severity == verify.Warning && strings.Contains(found[0].Message, "no key of "), "%v", found)
			_, err := planOne(t, r.b, r.target(t), signedOptions(driverinfo.Proprietary, c.kernel))
			assert.ErrorContains(t, err, "are open, not proprietary")
		})
	}
}
