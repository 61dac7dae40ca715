package attestation_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// TestMissing: without a provenance, and with those that are not to be trusted or not about the image.
func TestMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.build(t, pair("debian12", imagetest.NewDriver), recipe.Options{})
	arm := w.build(t, pair("debian12", imagetest.NewDriver, "arm64"), recipe.Options{})
	good := b.predicate(t)
	for what, c := range map[string]struct {
		old, with string
		keys      attestation.Rebuild
		want      string
	}{
		"other type":   {"build-type-v2", "x", trusted(), "the build type is"},
		"hostile":      {"http://", "file://", attestation.Rebuild{}, "is no file with an address with http or https"},
		"unknown":      {`"externalParameters":{`, `"externalParameters":{"more":true,`, attestation.Rebuild{}, "unknown field"},
		"earlier":      {"trust.md#build-type-v2", "supply-chain.md#build-type-v1", trusted(), "without the recipe: use the release that built the image"},
		"dependencies": {`"role":"program"`, `"role":"progra"`, trusted(), "the recipe has program "},
		"architecture": {good, arm.predicate(t), trusted(), "it is about an image for arm64"},
		"many":         {`"go":"go1"`, `"go":"go%d"`, trusted(), "has 6 different provenances"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(good, c.old, c.with, 1)
			all := []statement{{b.Image, text, keys()[0]}}
			for n := range strings.Count(text, "%d") * 6 {
				all = append(all[:n], statement{b.Image, fmt.Sprintf(text, n), keys()[0]})
			}
			ref := w.publish(t, b.Image, all...)
			wants(t, require.Value(c.keys.Images(t.Context(), machine(t), ref))(t), true, c.want)
		})
	}
}

// TestAnotherImages: the provenance of another image does not make this one.
func TestAnotherImages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, other := w.build(t, pair("debian12", imagetest.NewDriver), recipe.Options{}), w.build(t, pair("ubuntu16.04", imagetest.OldDriver),
		recipe.Options{})
	ref := w.publish(t, b.Image, statement{b.Image, other.predicate(t), keys()[0]}, statement{b.Image, b.predicate(t), keys()[1]})
	wants(t, require.Value(trusted().Images(t.Context(), machine(t), ref))(t), true,
		`config.Labels.io.github.driver-container.os is "debian12", not "ubuntu16.04"`)
	both := attestation.Rebuild{Keys: append(trusted().Keys, keys()[1].Public())}
	findings := require.Value(both.Images(t.Context(), machine(t), ref))(t)
	wants(t, findings, false, same) // one that is true is enough
	gone := *other.recipe
	gone.Source.Runfile = &fetch.File{URL: w.URL + "/gone.run", SHA256: strings.Repeat("0", 64)}
	ref = w.publish(t, b.Image, statement{b.Image, built{nil, &gone}.predicate(t), keys()[1]})
	findings = require.Value(both.Images(t.Context(), machine(t), ref))(t)
	wants(t, findings, false, same) // also after one that cannot be built
}

// TestIndex: all images of an index, or one; and the index itself.
func TestIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	amd, arm := w.build(t, pair("debian12", imagetest.NewDriver, "amd64"), recipe.Options{}), w.build(t, pair("debian12",
		imagetest.NewDriver, "arm64"), recipe.Options{})
	index := require.Value(images.Combine([]v1.Image{amd.Image, arm.Image}))(t)
	own := statement{amd.Image, amd.predicate(t), keys()[0]}
	for what, all := range map[string][]statement{
		"of the images": {own, {arm.Image, arm.predicate(t), keys()[0]}},
		"of the index":  {{index, amd.predicate(t), keys()[0]}, {index, arm.predicate(t), keys()[0]}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ref := w.publish(t, index, all...)
			wants(t, require.Value(trusted().Images(t.Context(), machine(t), ref))(t), false,
				"(amd64): built again", "(arm64): built again", "the index of these images has the same digest")
		})
	}
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		ref := w.publish(t, index, own)
		o := trusted()
		wants(t, require.Value(o.Images(t.Context(), machine(t), ref))(t), true, "(arm64) has no provenance",
			"(amd64): built again")
		o.Arch = "amd64"
		wants(t, require.Value(o.Images(t.Context(), machine(t), ref))(t), false, "(amd64): built again")
	})
	t.Run("changed", func(t *testing.T) {
		t.Parallel()
		bad := mutate.Annotations(index.(v1.ImageIndex), map[string]string{"more": "x"}).(v1.ImageIndex)
		ref := w.publish(t, bad, own, statement{arm.Image, arm.predicate(t), keys()[0]})
		wants(t, require.Value(trusted().Images(t.Context(), machine(t), ref))(t), true,
			"its images are the same, but the index")
	})
}

// fakeRunner leaves modules as the entrypoint would: equal ones for equal salts.
type fakeRunner struct{ salt string }

func (f fakeRunner) String() string { return "fake" }

func (f fakeRunner) Run(ctx context.Context, s runner.Step, dir string, _ func(string)) error {
	arg := func(name string) string { return s.Args[slices.Index(s.Args, name)+1] }
	key := kbuild.Key{Driver: imagetest.NewDriver, Flavour: arg("--kernel-module-type"), Release: arg("--kernel"), Arch: "amd64"}
	_, err := imagetest.PutModules(ctx, dir, key, []string{"nvidia", "nvidia-uvm"}, func(name string) []byte {
		return imagetest.LinkedModule(strings.ReplaceAll(name, "-", "_"), imagetest.NewDriver, key.Release, []string{"x" + f.salt}, nil)
	})
	return err
}

func compiling(b *images.Builder, salt string) *images.Builder {
	b.Runner = func(context.Context) (runner.Runner, error) { return fakeRunner{salt}, nil }
	return b
}

// moduleSigner signs with random numbers, so that nobody can make a signature twice.
func moduleSigner(t *testing.T) *sign.Signer {
	t.Helper()
	p := testcert.Of(keys()[1], x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Site"}}, nil)
	return require.Value(sign.NewSigner(keys()[1], p.Certificate))(t)
}

// TestModules: a rebuild compiles the modules again. Without the public key of the provenance it is a wrong request.
func TestModules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	compiling(w.b, "")
	o := recipe.Options{Kernels: []string{imagetest.Kernel, imagetest.OldKernel}, OneImage: true, Modules: []string{"nvidia-uvm", "nvidia"}}
	ref := w.published(t, w.build(t, pair("debian12", imagetest.NewDriver), o))
	try := func(salt string, o attestation.Rebuild) (string, error) {
		findings, err := o.Images(t.Context(), compiling(machine(t), salt), ref)
		return lines(findings), err
	}
	text, err := try("", trusted())
	require.NoError(t, err)
	assert.Contains(t, text, same)
	text, err = try("other", trusted())
	require.NoError(t, err)
	assert.Contains(t, text, `/usr/share/nvidia-driver/modules/`)
	if _, err = try("", attestation.Rebuild{}); !isRequest(err) {
		t.Errorf("without a key: %v", err)
	}
}

// TestSignedModules: signatures of modules are taken over, if the certificate is the right one.
func TestSignedModules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	compiling(w.b, "")
	w.b.Signer = moduleSigner(t)
	ref := w.published(t, w.build(t, pair("debian12", imagetest.NewDriver), recipe.Options{Kernels: []string{imagetest.Kernel},
		Signer: w.b.Signer.Certificate}))
	if _, err := trusted().Images(t.Context(), compiling(machine(t), ""),
		ref); !isRequest(err) || !strings.Contains(err.Error(), "--module-cert") {
		t.Errorf("%v", err)
	}
	o := trusted()
	o.Certificates = []*x509.Certificate{moduleSigner(t).Certificate, w.b.Signer.Certificate}
	wants(t, require.Value(o.Images(t.Context(), compiling(machine(t), ""), ref))(t), false, same)
	wants(t, require.Value(o.Images(t.Context(), compiling(machine(t), "other"), ref))(t), true,
		"module nvidia for kernel "+imagetest.Kernel+", compiled again: it is not the module that was signed")
}

func isRequest(err error) bool {
	return failure.KindOf(err) == failure.Usage
}
