// Package bundletest makes artifacts and bundles for tests.
package bundletest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/bundle/writing"
	"github.com/driver-container/driver-container/images/oci"
)

// Origin is the repository of the images.
const Origin = "registry.example.com/gpu/driver"

// Image returns the content of an image with layers of these contents.
func Image(t testing.TB, layers ...string) *oci.Content {
	t.Helper()
	c := &oci.Content{}
	config := oci.BytesBlob(types.OCIConfigJSON, fmtJSON(t, v1.ConfigFile{OS: "linux", Architecture: "amd64", Author: oci.HashOf([]byte(layers[0])).String()}), nil)
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config.Desc}
	for _, l := range layers {
		b := oci.BytesBlob(types.OCILayer, []byte(l), nil)
		m.Layers = append(m.Layers, b.Desc)
		c.Blobs = append(c.Blobs, b)
	}
	c.Blobs = append(c.Blobs, config)
	c.Documents = []oci.Document{document(t, types.OCIManifestSchema1, m)}
	return c
}

// Index returns the content of an index of images.
func Index(t testing.TB, images ...*oci.Content) *oci.Content {
	t.Helper()
	c := &oci.Content{}
	x := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, i := range images {
		x.Manifests = append(x.Manifests, i.Top().Desc)
		c.Blobs = append(c.Blobs, i.Blobs...)
		c.Documents = append(c.Documents, i.Documents...)
	}
	c.Documents = append(c.Documents, document(t, types.OCIImageIndex, x))
	return c
}

func document(t testing.TB, mediaType types.MediaType, v any) oci.Document {
	t.Helper()
	raw := fmtJSON(t, v)
	return oci.Document{Raw: raw, Desc: v1.Descriptor{MediaType: mediaType, Size: int64(len(raw)), Digest: oci.HashOf(raw)}}
}

func fmtJSON(t testing.TB, v any) []byte {
	t.Helper()
	return require.Value(json.Marshal(v))(t)
}

// Referrer returns an attachment of a document.
func Referrer(t testing.TB, subject oci.Document, artifactType, text string) oci.Attachment {
	t.Helper()
	layer := oci.BytesBlob(types.MediaType(artifactType), []byte(text), nil)
	return require.Value(oci.NewReferrer(subject.Desc, artifactType, []oci.Blob{layer}, nil))(t)
}

// Artifacts returns two images that share a layer, an index of both, and attachments: an SBOM, a signature of
// it and a .sig tag.
func Artifacts(t testing.TB) []writing.Artifact {
	t.Helper()
	one, two := Image(t, "shared layer", "layer of one"), Image(t, "shared layer", "layer of two")
	index := Index(t, one, two)
	sbom := Referrer(t, index.Top(), "application/spdx+json", "an SBOM")
	signed := Referrer(t, sbom.Manifest, bundle.SignatureType, "a signature of the SBOM")
	tagged := Referrer(t, one.Top(), "application/x", "a signature")
	tagged.Tag = oci.SignatureTag(one.Top().Desc.Digest)
	return []writing.Artifact{
		{Kind: bundle.Image, Repository: Origin, Tags: []string{"535.261.03-debian12", "535-debian12"}, Content: index, Attachments: []oci.Attachment{signed, tagged, sbom}},
		{Kind: bundle.Image, Repository: Origin, Tags: []string{"550.1-debian12"}, Content: Image(t, "shared layer", "layer of three")},
		{Kind: bundle.Chart, Repository: Origin + "/charts/nvidia-driver", Tags: []string{"0.2.0"}, Content: Image(t, "a chart")},
		{Kind: bundle.Base, Repository: "docker.io/library/debian", Tags: []string{"12-slim"}, Content: Image(t, "a base", "shared layer")},
	}
}

// Sign signs with a key that is a word.
func Sign(key string) bundle.Signer {
	return func(_ context.Context, subject v1.Descriptor) (oci.Attachment, error) {
		layer := oci.BytesBlob(bundle.SignatureType, []byte(key+" signs "+subject.Digest.String()), nil)
		return oci.NewReferrer(subject, bundle.SignatureType, []oci.Blob{layer}, nil)
	}
}

// Verify verifies what Sign made.
func Verify(key string) bundle.Verifier {
	return func(_ context.Context, subject v1.Descriptor, signature oci.Attachment) error {
		text, err := oci.ReadBlob(signature.Blobs[1], 1<<20)
		if err != nil || string(text) != key+" signs "+subject.Digest.String() {
			return errors.New("it is signed by another key")
		}
		return nil
	}
}

// Options are those of a small signed bundle.
func Options() writing.Options {
	return writing.Options{Origin: Origin, Created: 1_700_000_000, Tool: "driver-build test", Sign: Sign("key")}
}

// Plan makes the plan of a bundle.
func Plan(t testing.TB, o writing.Options, artifacts []writing.Artifact) *writing.Plan {
	t.Helper()
	return require.Value(writing.Prepare(t.Context(), o, artifacts))(t)
}

// Bytes returns a bundle of one file.
func Bytes(t testing.TB, o writing.Options, artifacts []writing.Artifact) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Plan(t, o, artifacts).Write(t.Context(), &b, nil))
	return b.Bytes()
}

// Source is bytes as a file.
func Source(name string, b []byte) reading.Source {
	return reading.Source{Name: name, Content: bytes.NewReader(b), Size: int64(len(b))}
}
