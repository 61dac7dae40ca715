// Package bundletest makes artifacts and bundles for tests.
package bundletest

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"io"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// Origin is the repository of the images.
const Origin = "registry.example.com/gpu/driver"

// Image returns the content of an image with layers of these contents.
func Image(t testing.TB, layers ...string) *oci.Content {
	t.Helper()
	return require.Value(oci.Collect(Layers(t, layers...)))(t)
}

// Layers returns an image with layers of these contents.
func Layers(t testing.TB, layers ...string) v1.Image {
	t.Helper()
	img := mutate.MediaType(
		mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON),
		types.OCIManifestSchema1,
	)
	img = require.Value(
		mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: "amd64"}),
	)(t)
	for _, text := range layers {
		img = require.Value(
			mutate.AppendLayers(img, static.NewLayer([]byte(text), types.OCILayer)),
		)(t)
	}
	return img
}

// Referrer returns an attachment of a document.
func Referrer(t testing.TB, subject oci.Document, artifactType, text string) oci.Attachment {
	t.Helper()
	layer := oci.BytesBlob(types.MediaType(artifactType), []byte(text), nil)
	return require.Value(oci.NewReferrer(subject.Desc, artifactType, []oci.Blob{layer}, nil))(t)
}

// Artifacts returns two images that share a layer, an index of both, and attachments: an SBOM, a
// signature of it and a .sig tag.
func Artifacts(t testing.TB) []bundle.Artifact {
	t.Helper()
	one := Image(t, "shared layer", "layer of one")
	index := require.Value(
		oci.Collect(mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
			mutate.IndexAddendum{Add: Layers(t, "shared layer", "layer of one")},
			mutate.IndexAddendum{Add: Layers(t, "shared layer", "layer of two")})),
	)(t)
	sbom := Referrer(t, index.Top(), "application/spdx+json", "an SBOM")
	signed := Referrer(
		t,
		sbom.Manifest,
		"application/vnd.dev.sigstore.bundle.v0.3+json",
		"a signature of the SBOM",
	)
	tagged := Referrer(t, one.Top(), "application/x", "a signature")
	tagged.Tag = oci.SignatureTag(one.Top().Desc.Digest)
	return []bundle.Artifact{
		{
			Kind:        bundle.Image,
			Repository:  Origin,
			Tags:        []string{"535.261.03-debian12", "535-debian12"},
			Content:     index,
			Attachments: []oci.Attachment{tagged, sbom, signed},
		},
		{
			Kind:       bundle.Image,
			Repository: Origin,
			Tags:       []string{"550.1-debian12"},
			Content:    Image(t, "shared layer", "layer of three"),
		},
		{
			Kind:       bundle.Chart,
			Repository: Origin + "/charts/nvidia-driver",
			Tags:       []string{"0.2.0"},
			Content:    Image(t, "a chart"),
		},
		{
			Kind:       bundle.Base,
			Repository: "docker.io/library/debian",
			Tags:       []string{"12-slim"},
			Content:    Image(t, "a base", "shared layer"),
		},
	}
}

// Key is a key that signs equal bytes equally. It is made of a word.
func Key(word string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(word))
	return ed25519.NewKeyFromSeed(seed[:])
}

// Trusted is what verifies a bundle with Options.
var Trusted = []crypto.PublicKey{Key("key").Public()}

// Options are those of a small signed bundle.
func Options(t testing.TB) bundle.Options {
	t.Helper()
	return bundle.Options{
		Origin:  Origin,
		Created: 1_700_000_000,
		Tool:    "driver-build test",
		Sign:    require.Value(signature.NewKeySigner(Key("key")))(t),
	}
}

// Plan makes the plan of a bundle.
func Plan(t testing.TB, o bundle.Options, artifacts []bundle.Artifact) *bundle.Prepared {
	t.Helper()
	return require.Value(bundle.Prepare(t.Context(), o, artifacts))(t)
}

// Bytes returns a bundle.
func Bytes(t testing.TB, o bundle.Options, artifacts []bundle.Artifact) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Plan(t, o, artifacts).Write(t.Context(), &b, nil))
	return b.Bytes()
}

// File is bytes as a file.
func File(b []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
}

// Open reads a bundle and verifies it.
func Open(t testing.TB, raw []byte) *bundle.Bundle {
	t.Helper()
	b, findings, err := bundle.Check(t.Context(), File(raw), nil, nil)
	require.NoError(t, err)
	require.NoError(t, bundle.Unsound(findings))
	return b
}
