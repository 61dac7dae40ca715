package images

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"math/big"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/verify"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// signers are an RSA key, which signs equally each time, and another one.
var signers = sync.OnceValue(func() [2]*sign.Signer {
	var out [2]*sign.Signer
	for n, key := range []crypto.Signer{testcert.RSA(), testcert.Key()} {
		pair := testcert.Of(key, x509.Certificate{SerialNumber: big.NewInt(int64(n + 1)), Subject: pkix.Name{CommonName: "Site"}}, nil)
		out[n] = &sign.Signer{Key: pair.Key, Certificate: pair.Certificate}
	}
	return out
})

// thin builds an image with modules for two kernels.
func thin(t *testing.T, r *rig) v1.Image {
	t.Helper()
	return r.build(t, pair("debian12", newDriver), recipe.Options{Kernels: []string{imagetest.Kernel, imagetest.OldKernel}, OneImage: true})
}

// findings are the errors and notes of a rule.
func findingsOf(t *testing.T, r *rig, img v1.Image, rule string, certs ...*x509.Certificate) (all []verify.Finding) {
	t.Helper()
	found := require.Value(examiner(r.b).Verify(t.Context(), "x", img, verify.Options{Signers: certs}))(t)
	for _, f := range found {
		if f.Rule == rule {
			all = append(all, f)
		}
	}
	return all
}

// TestSignImage: the layers with modules are those that a build with the key makes, and nothing else changes
// except a label and the description.
func TestSignImage(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	own, other := signers()[0], signers()[1]
	unsigned := thin(t, r)
	if found := findingsOf(t, r, unsigned, "module-signature"); len(found) != 2 || found[0].Severity != verify.Note {
		t.Errorf("an unsigned image: %v", found)
	}
	signed := require.Value(kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", unsigned, kernelmodules.SignaturesBy(own)))(t)
	r.b.Signer = own
	o := recipe.Options{Kernels: []string{imagetest.Kernel, imagetest.OldKernel}, OneImage: true, Signer: own.Certificate}
	built := r.build(t, pair("debian12", newDriver), o)
	before, after, want := layersOf(t, unsigned), layersOf(t, signed), layersOf(t, built)
	changed := 0
	last := len(before) - 1 // the description
	for i := range before[:last] {
		if digestOf(t, before[i]) != digestOf(t, after[i]) {
			changed++
			assert.Equalf(t, digestOf(t, want[i]), digestOf(t, after[i]), "layer %d is not the one that a build with the key makes", i)
		}
	}
	assert.Equalf(t, true, changed == 2 && len(before) == len(after), "%d of %d layers changed, %d after", changed, len(before), len(after))
	wantFit(t, r.b, signed)
	if found := append(findingsOf(t, r, signed, "module-signature", own.Certificate), findingsOf(t, r, signed, "module-signature")...); len(found) > 0 {
		t.Error(found)
	}
	if found := findingsOf(t, r, signed, "module-signature", other.Certificate); len(found) != 6 || found[0].Severity != verify.Error || !strings.Contains(found[0].Message, "another key") {
		t.Errorf("verify with another certificate: %v", found)
	}
	i, err := examiner(r.b).Inspect(t.Context(), "x", signed)
	if err != nil || len(i.Modules) != 2 || i.Modules[0].Certificate != sign.Fingerprint(own.Certificate.Raw) || i.Modules[0].Kernel != imagetest.Kernel {
		t.Fatalf("inspect: %+v, %v", i.Modules, err)
	}
	if d := cmp.Diff(verify.ModuleInfo{
		Name: "nvidia", Vermagic: imagetest.Kernel + " SMP mod_unload ", SrcVersion: "AC415F9243EB439A4D6B17F", Signer: "Site", Hash: "sha256", KeyID: "01",
	}, i.Modules[0].Modules[0], cmpopts.IgnoreUnexported(verify.ModuleInfo{})); d != "" {
		t.Error(d)
	}
	again, err := kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", signed, kernelmodules.SignaturesBy(own))
	assert.Equalf(t, false, err != nil || digestOf(t, again) != digestOf(t, signed), "signed again: %v, or another digest", err)
	replaced := require.Value(kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", signed, kernelmodules.SignaturesBy(other)))(t)
	if found := findingsOf(t, r, replaced, "module-signature", other.Certificate); len(found) > 0 {
		t.Errorf("signed by another: %v", found)
	}
}

// answered signs what a request asks for, as an offline signer does.
func answered(t *testing.T, dir string, q *kernelmodules.SigningRequest, s *sign.Signer, plain bool) {
	t.Helper()
	for _, m := range q.Modules {
		name := filepath.Join(dir, m.SHA256)
		var out []byte
		var err error
		if plain {
			digest, derr := os.ReadFile(name + ".digest")
			if derr != nil || hex.EncodeToString(digest) != m.Digest {
				t.Fatalf("digest of %s: %x, %v", m.Name, digest, derr)
			}
			out, err = s.Key.Sign(rand.Reader, digest, crypto.SHA256)
			name += ".sig"
		} else {
			out, err = s.SignFile(t.Context(), name+".ko", crypto.SHA256)
			name += ".p7s"
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, out, 0o600))
	}
}

// TestOfflineSigning: the round trip and signing with the key make the same image.
func TestOfflineSigning(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	own := signers()[0]
	img := thin(t, r)
	want := require.Value(kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", img, kernelmodules.SignaturesBy(own)))(t)
	for _, whole := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "request")
		q, err := kernelmodules.RequestSignatures(t.Context(), r.b.Store, dir, map[string]v1.Image{"amd64": img}, whole)
		if err != nil || len(q.Modules) != 6 {
			t.Fatalf("%+v, %v", q, err)
		}
		if _, err := kernelmodules.RequestSignatures(t.Context(), r.b.Store, dir, map[string]v1.Image{"amd64": img}, whole); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("a request over another: %v", err)
		}
		answered(t, dir, q, own, !whole)
		how := require.Value(kernelmodules.ImportSignatures(dir, own.Certificate))(t)
		got, err := kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", img, how)
		if err != nil || digestOf(t, got) != digestOf(t, want) {
			t.Errorf("whole modules %v: %v, or not the image that signing with the key gives", whole, err)
		}
	}
}

func TestOfflineSigningRefuses(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	own, other := signers()[0], signers()[1]
	img := r.build(t, pair("debian12", newDriver), recipe.Options{Kernels: []string{imagetest.Kernel}})
	all := map[string]v1.Image{"amd64": img}
	for name, c := range map[string]struct {
		change func(dir string, q *kernelmodules.SigningRequest) // of right answers
		want   error
		text   string
	}{
		"over other bytes": {func(dir string, q *kernelmodules.SigningRequest) {
			copyFile(t, filepath.Join(dir, q.Modules[1].SHA256+".p7s"), filepath.Join(dir, q.Modules[0].SHA256+".p7s"))
		}, sign.ErrMismatch, "nvidia"},
		"by another key": {func(dir string, q *kernelmodules.SigningRequest) { answered(t, dir, q, other, false) }, sign.ErrForeign, "nvidia"},
		"no PKCS#7": {func(dir string, q *kernelmodules.SigningRequest) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, q.Modules[0].SHA256+".p7s"), []byte("x"), 0o600))
		}, sign.ErrMalformed, ".p7s"},
		"other hash": {func(dir string, q *kernelmodules.SigningRequest) {
			der := require.Value(own.SignFile(t.Context(), filepath.Join(dir, q.Modules[0].File), crypto.SHA512))(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, q.Modules[0].SHA256+".p7s"), der, 0o600))
		}, sign.ErrUnsupported, "sha512"},
		"none": {func(dir string, q *kernelmodules.SigningRequest) {
			require.NoError(t, os.Remove(filepath.Join(dir, q.Modules[0].SHA256+".p7s")))
		}, sign.ErrUnsigned, "neither"},
		"no folder": {func(dir string, _ *kernelmodules.SigningRequest) { require.NoError(t, os.RemoveAll(dir)) }, os.ErrNotExist, "read the signatures"},
		"large": {func(dir string, q *kernelmodules.SigningRequest) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, q.Modules[0].SHA256+".p7s"), make([]byte, 64<<10+1), 0o600))
		}, nil, "larger than"},
	} {
		dir := filepath.Join(t.TempDir(), "request")
		q := require.Value(kernelmodules.RequestSignatures(t.Context(), r.b.Store, dir, all, true))(t)
		answered(t, dir, q, own, false)
		c.change(dir, q)
		how, err := kernelmodules.ImportSignatures(dir, own.Certificate)
		if err == nil {
			_, err = kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", img, how)
		}
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %v with %q", name, err, c.want, c.text)
		}
	}
}

func TestSignImageRefuses(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	own := signers()[0]
	plain := r.build(t, pair("debian12", newDriver), recipe.Options{})
	assert.ErrorIsf(t, assert.Err(kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", plain, kernelmodules.SignaturesBy(own))), kernelmodules.ErrNoModules, "an image without modules")
	assert.ErrorIsf(t, assert.Err(kernelmodules.RequestSignatures(t.Context(), r.b.Store, t.TempDir(), map[string]v1.Image{"amd64": plain}, false)), kernelmodules.ErrNoModules, "a request for an image without modules")
	mixed := changed(t, plain, []repotest.File{{Name: recipe.ModulesDir + "/x/nvidia.ko", Body: "x"}, {Name: "etc/x", Body: "x"}}, nil)
	if _, err := kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", mixed, kernelmodules.SignaturesBy(own)); err == nil || !strings.Contains(err.Error(), "other files too") {
		t.Errorf("a layer with other files: %v", err)
	}
	part := changed(t, plain, []repotest.File{{Name: recipe.ModulesDir + "/x/nvidia.ko", Body: "x"}}, nil)
	assert.ErrorIsf(t, assert.Err(kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", part, kernelmodules.SignaturesBy(own))), kbuild.ErrMiss, "half a set")
}

// TestVerifyModules: what somebody puts over the modules afterwards is found.
func TestVerifyModules(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	own := signers()[0]
	unsigned := r.build(t, pair("debian12", newDriver), recipe.Options{Kernels: []string{imagetest.Kernel}})
	img := require.Value(kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", unsigned, kernelmodules.SignaturesBy(own)))(t)
	img = undescribed(t, img)
	tree := treeOf(t, img)
	list, err := tree.ReadDir(recipe.ModulesDir)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	folder := path.Join(recipe.ModulesDir, list[0].Name())
	module := []byte(read(t, tree, folder+"/nvidia.ko"))
	flipped := bytes.Clone(module)
	flipped[100] ^= 1
	over := func(data []byte) v1.Image {
		return changed(t, img, []repotest.File{{Name: folder + "/nvidia.ko", Body: string(data)}}, nil)
	}
	// A set of the same name, whole, but not signed by its own certificate.
	forged := func(change func(*kbuild.Set)) v1.Image {
		var files []repotest.File
		require.NoError(t, kernelmodules.Each(t.Context(), r.b.Store, modulesOf(t, img), func(set *kbuild.Set, work string, _ bool) error {
			change(set)
			made := require.Value(kbuild.Cache{Dir: filepath.Join(work, "c")}.Put(t.Context(), set))(t)
			for _, name := range []string{"nvidia.ko", "nvidia-uvm.ko", "nvidia-modeset.ko", kbuild.ManifestName} {
				data := require.Value(os.ReadFile(filepath.Join(made.Dir, name)))(t)
				files = append(files, repotest.File{Name: folder + "/" + name, Body: string(data)})
			}
			return nil
		}))
		return changed(t, img, files, nil)
	}
	for name, c := range map[string]struct {
		img        v1.Image
		rule, text string
	}{
		"a changed module":   {over(flipped), "modules", "has changed since it was stored"},
		"a stripped module":  {over(module[:len(module)-100]), "modules", "has changed since it was stored"},
		"described, missing": {over(flipped), "modules", "are not in /usr/share/nvidia-driver/modules or are damaged"},
		"foreign certificate": {forged(func(s *kbuild.Set) { s.Certificate = signers()[1].Certificate.Raw }),
			"module-signature", "another key"},
		"bad certificate": {forged(func(s *kbuild.Set) { s.Certificate = []byte("x") }), "modules", "its certificate"},
	} {
		found := findingsOf(t, r, c.img, c.rule)
		var errs []string
		for _, f := range found {
			if f.Severity == verify.Error {
				errs = append(errs, f.String())
			}
		}
		assert.Containsf(t, strings.Join(errs, "\n"), c.text, "%s: %v", name, found)
	}
	if found := findingsOf(t, r, unsigned, "module-signature", own.Certificate); len(found) != 3 || found[0].Severity != verify.Error {
		t.Errorf("unsigned where signatures are wanted: %v", found)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data := require.Value(os.ReadFile(from))(t)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}
