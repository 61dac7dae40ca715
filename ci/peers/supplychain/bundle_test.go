package supplychain

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/bundletest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

const (
	origin        = "registry.example.com/gpu/driver"
	signStatement = "https://sigstore.dev/cosign/sign/v1"
)

// writeBundle writes a signed bundle with an index of two images, origin:1, its signatures and attestations.
// It returns the digest of the index.
func writeBundle(t *testing.T, file string, key signingKey, form signature.Format) v1.Hash {
	t.Helper()
	index := imagetest.Index(t, imagetest.RandomImage(t, "amd64", 1000, "shared", "amd"), imagetest.RandomImage(t, "arm64", 1000, "shared", "arm"))
	content := require.Value(oci.Collect(index))(t)
	var subjects []signature.Subject
	for _, d := range content.Documents {
		subjects = append(subjects, signature.Subject{Descriptor: d.Desc})
	}
	attachments := sign(t, key, form, origin, subjects, slices.Collect(maps.Values(predicates(t)))...)
	options := bundle.Options{Origin: origin, Tool: "driver-build", Sign: key.signer}
	artifacts := []bundle.Artifact{{Kind: bundle.Image, Repository: origin, Tags: []string{"1"}, Content: content, Attachments: attachments}}
	testfile.Write(t, file, string(bundletest.Bytes(t, options, artifacts)))
	return imagetest.Digest(t, index)
}

// TestBundle: other programs read the image out of a bundle as it is; what the project imports has all its
// referrers.
func TestBundle(t *testing.T) {
	judged(t)
	keys, file := signingKeys(t), filepath.Join(t.TempDir(), "bundle.tar")
	key := keys["p256"]
	writeBundle(t, file, key, signature.Both)
	layout := t.TempDir()
	tool.Must(t, "tar", "-xf", file, "-C", layout)
	assert.NoErrorf(t, Validate(t, Layout, layout), "image-spec's schemas")
	index := filepath.Join(layout, "index.json")
	testfile.Write(t, index, strings.Replace(testfile.Read(t, index), `"digest":"sha256:`, `"digest":"sha256:x`, 1))
	assert.Errorf(t, Validate(t, Layout, layout), "a digest that is none")
	assert.NoError(t, SkopeoCopy(t, file, "1", t.TempDir()))
	p := newProject(t)
	Registries(t, func(t *testing.T, host string) {
		assert.NoError(t, RegctlImport(t, file, "1", host+"/regctl/driver:1"))
		assert.NoError(t, OrasCopy(t, file, "1", host+"/oras/driver:1"))
		p.importBundle(t, file, host+"/mirror/gpu")
		assert.Equal(t, 0, len(RegctlReferrers(t, host+"/regctl/driver:1")))
		for _, image := range []string{host + "/oras/driver:1", host + "/mirror/gpu:1"} {
			assert.Equalf(t, 1+len(predicates(t)), len(RegctlReferrers(t, image)), "referrers of %s", image)
		}
	})
}

// TestCosignBundle: both versions of cosign verify the bundle's own signature, and images that came out of a
// bundle by the project or by oras.
func TestCosignBundle(t *testing.T) {
	judged(t)
	keys, dir := signingKeys(t), t.TempDir()
	key, other := keys["p256"], keys["p384"]
	files := map[signature.Format]string{}
	for _, form := range []signature.Format{signature.Legacy, signature.Bundle} {
		files[form] = filepath.Join(dir, string(form)+".tar")
		writeBundle(t, files[form], key, form)
	}
	manifest, signed := bundleSignature(t, files[signature.Legacy])
	changed := testfile.Write(t, filepath.Join(dir, "changed"), strings.Replace(testfile.Read(t, manifest), `"size":`, `"size":1`, 1))
	cosigns := both(t)
	for name, c := range cosigns {
		assert.NoErrorf(t, c.VerifyBlob(t, key.public, signStatement, signed, manifest), "%s", name)
		assert.Errorf(t, c.VerifyBlob(t, other.public, signStatement, signed, manifest), "%s: another key", name)
		assert.Errorf(t, c.VerifyBlob(t, key.public, signStatement, signed, changed), "%s: another list", name)
	}
	p := newProject(t)
	Registries(t, func(t *testing.T, host string) {
		for form, file := range files {
			site, oras := host+"/site/"+string(form), host+"/oras/"+string(form)
			p.importBundle(t, file, site)
			images := []string{site + ":1"}
			if form == signature.Bundle { // oras knows no tags of signatures
				require.NoError(t, OrasCopy(t, file, "1", oras+":1"))
				images = append(images, oras+":1")
			}
			for name, c := range cosigns {
				for _, image := range images {
					assert.NoErrorf(t, c.Verify(t, key.public, image), "%s: %s", name, image)
					assert.NoErrorf(t, assert.Err(c.VerifyAttestation(t, key.public, "slsaprovenance1", image)), "%s: %s", name, image)
					assert.Errorf(t, c.Verify(t, other.public, image), "%s: %s: another key", name, image)
				}
			}
		}
	})
}

// importBundle imports a bundle in place of the origin.
func (p project) importBundle(t *testing.T, file, to string) {
	t.Helper()
	require.Value(bundletest.Open(t, []byte(testfile.Read(t, file))).Import(t.Context(), p.Client, bundle.ImportOptions{To: to}))(t)
}

// bundleSignature takes the bundle's manifest and its signature out of the tar, as docs/trust.md does
// by hand.
func bundleSignature(t *testing.T, file string) (manifest, signed string) {
	t.Helper()
	dir := t.TempDir()
	tool.Must(t, "tar", "-xf", file, "-C", dir)
	blob := func(h v1.Hash) string { return filepath.Join(dir, "blobs/sha256", h.Hex) }
	var index v1.IndexManifest
	require.NoError(t, json.Unmarshal([]byte(testfile.Read(t, dir+"/index.json")), &index))
	var m v1.Manifest
	require.NoError(t, json.Unmarshal([]byte(testfile.Read(t, blob(index.Manifests[1].Digest))), &m))
	return blob(index.Manifests[0].Digest), blob(m.Layers[0].Digest)
}
