package attestation_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

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

// TestModules: modules are compiled again, and only for somebody who has the signer's key of the provenance.
func TestModules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	compiling(w.b, "")
	o := recipe.Options{Kernels: []string{imagetest.Kernel, imagetest.OldKernel}, Together: true, Modules: []string{"nvidia-uvm", "nvidia"}}
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
