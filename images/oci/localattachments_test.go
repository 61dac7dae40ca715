package oci

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func described(t *testing.T, a Artifact) v1.Descriptor {
	t.Helper()
	return require.Value(Collect(a))(t).Top().Desc
}

func sbomOf(t *testing.T, subject v1.Descriptor, text string) Attachment {
	t.Helper()
	return require.Value(NewReferrer(subject, "application/spdx+json", []Blob{BytesBlob("application/spdx+json", []byte(text), nil)}, nil))(t)
}

func signatureOf(t *testing.T, subject v1.Hash, text string) Attachment {
	t.Helper()
	layer := BytesBlob("application/vnd.dev.cosign.simplesigning.v1+json", []byte("payload"), map[string]string{"signature": text})
	config := BytesBlob(types.OCIConfigJSON, []byte(`{"rootfs":{"type":"layers","diff_ids":["`+layer.Desc.Digest.String()+`"]}}`), nil)
	raw := require.Value(json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config.Desc, Layers: []v1.Descriptor{layer.Desc}}))(t)
	return Attachment{Subject: subject, Tag: SignatureTag(subject), Blobs: []Blob{layer, config}, Manifest: Document{Raw: raw, Desc: v1.Descriptor{
		MediaType: types.OCIManifestSchema1, Size: int64(len(raw)), Digest: HashOf(raw)}}}
}

// found lists attachments as subject, tag and the number of layers, and reads all blobs.
func found(t *testing.T, ref string) (out []string) {
	t.Helper()
	for _, a := range require.Value(LocalAttachments(t.Context(), ref))(t) {
		for _, b := range a.Blobs {
			require.Value(ReadBlob(b, 1<<20))(t)
		}
		m := require.Value(v1.ParseManifest(bytes.NewReader(a.Manifest.Raw)))(t)
		out = append(out, a.Subject.Hex[:4]+strings.TrimPrefix(a.Tag, "sha256-"+a.Subject.Hex)+" "+a.Manifest.Desc.ArtifactType+strings.Repeat("+", len(m.Layers)))
	}
	return out
}

// TestLayoutAttachments writes an index with attachments into a layout and an archive. They are found there,
// and images are opened as if there were none.
func TestLayoutAttachments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layout, archive := filepath.Join(dir, "layout"), filepath.Join(dir, "a.tar")
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	index := imagetest.Index(t, img, imagetest.RandomImage(t, "arm64", 10, "one"))
	top, child := described(t, index), described(t, img)
	onTop := sbomOf(t, top, "top")
	all := []Attachment{
		onTop, sbomOf(t, child, "child"), sbomOf(t, onTop.Manifest.Desc, "of the SBOM"),
		signatureOf(t, top.Digest, "a"), signatureOf(t, top.Digest, "b"), signatureOf(t, top.Digest, "a"),
	}
	require.NoError(t, WriteLayout(t.Context(), layout, "x", index, all...))
	require.NoError(t, WriteOCIArchive(t.Context(), archive, "driver", "x", index, all...))
	again := filepath.Join(dir, "again.tar")
	require.NoError(t, WriteOCIArchive(t.Context(), again, "driver", "x", index, all...))
	assert.Equal(t, string(require.Value(os.ReadFile(archive))(t)), string(require.Value(os.ReadFile(again))(t)))

	sig, spdx := " application/vnd.oci.image.config.v1+json", " application/spdx+json+"
	hex := func(d v1.Descriptor) string { return d.Digest.Hex[:4] }
	want := []string{hex(top) + spdx, hex(top) + ".sig" + sig + "++", hex(child) + spdx, hex(onTop.Manifest.Desc) + spdx}
	for _, ref := range []string{"oci:" + layout, "oci:" + layout + ":x", "oci-archive:" + archive} {
		assert.Samef(t, want, found(t, ref), "%s", ref)
		a := require.Value(artifactOf(t, ref))(t)
		assert.Equal(t, top.Digest, imagetest.Digest(t, a))
		l, _ := ParseLocal(ref)
		_, digest, err := l.Image(t.Context(), "amd64")
		require.NoError(t, err)
		assert.Equal(t, child.Digest, digest)
	}
	require.NoError(t, WriteLayout(t.Context(), layout, "y", img))
	assert.Samef(t, []string{hex(child) + spdx}, found(t, "oci:"+layout+":y"), "an image of the layout")

	// Again, with one signature more: it is added, and nothing is there twice.
	require.NoError(t, WriteLayout(t.Context(), layout, "x", index, append(all, signatureOf(t, top.Digest, "c"))...))
	want[1] += "+"
	assert.Same(t, want, found(t, "oci:"+layout+":x"))
	assert.ErrorContains(t, assert.Err(artifactOf(t, "oci:"+layout)), "several images")
}

// TestForeignLayouts reads layouts of other programs: a referrer without annotations, a fallback index with a
// name and a signature with a name.
func TestForeignLayouts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	subject := described(t, img)
	a, b, sig := sbomOf(t, subject, "a"), sbomOf(t, subject, "b"), signatureOf(t, subject.Digest, "s")
	require.NoError(t, WriteLayout(t.Context(), dir, "", img, a, b, sig))
	var index v1.IndexManifest
	path := filepath.Join(dir, "index.json")
	require.NoError(t, json.Unmarshal(require.Value(os.ReadFile(path))(t), &index))
	list := require.Value(AddReferrers(nil, []v1.Descriptor{b.Manifest.Desc}))(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "blobs/sha256", HashOf(list).Hex), list, 0o600))
	index.Manifests = slices.DeleteFunc(index.Manifests, func(d v1.Descriptor) bool { return d.Digest == b.Manifest.Desc.Digest })
	for i, d := range index.Manifests {
		index.Manifests[i].Annotations, index.Manifests[i].ArtifactType = nil, ""
		if d.Digest == sig.Manifest.Desc.Digest {
			index.Manifests[i].Annotations = map[string]string{RefNameAnnotation: sig.Tag}
		}
	}
	index.Manifests = append(index.Manifests,
		v1.Descriptor{MediaType: types.OCIImageIndex, Size: int64(len(list)), Digest: HashOf(list), Annotations: map[string]string{RefNameAnnotation: ReferrersTag(subject.Digest)}},
		v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: 1, Digest: HashOf([]byte("gone"))})
	for i, d := range index.Manifests {
		if d.Digest == subject.Digest {
			index.Manifests[i].Annotations = map[string]string{RefNameAnnotation: "x"}
		}
	}
	require.NoError(t, os.WriteFile(path, require.Value(json.Marshal(index))(t), 0o600))
	assert.Equal(t, 3, len(found(t, "oci:"+dir)))
}
