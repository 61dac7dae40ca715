package signature

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
)

// TestGolden has every byte that is made for an image with two attestations.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"ed25519", "rsa"} {
		var b strings.Builder
		for _, a := range sign(t, request(Both), key) {
			fmt.Fprintf(&b, "# %s of %s, tag %q\n%s\n", a.Manifest.Desc.Digest, a.Subject, a.Tag, a.Manifest.Raw)
			for _, blob := range a.Blobs {
				fmt.Fprintf(&b, "%s %s\n", blob.Desc.MediaType, content(t, blob))
			}
		}
		goldentest.Compare(t, "testdata/"+key+".golden", b.String())
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"p256", "p384", "rsa", "ed25519"} {
		for _, format := range []Format{Legacy, Bundle, Both} {
			made := sign(t, request(format), key)
			r := verify(t, made, "other", key)
			assert.NoErrorf(t, r.Err(), "%s %s", key, format)
			want := map[Format][3]int{Legacy: {2, 2, 2}, Bundle: {3, 1, 2}, Both: {5, 3, 4}}[format]
			assert.Equalf(t, want, [3]int{len(made), len(r.Signatures), len(r.Attestations)}, "%s %s: attachments, signatures, attestations", key, format)
			for _, f := range append(r.Signatures, r.Attestations...) {
				if f.Err != nil || len(f.Keys) != 1 || f.Keys[0] != require.Value(KeyID(keys()[key].Public()))(t) {
					t.Errorf("%s %s, %s: keys %v, %v", key, format, f.Where, f.Keys, f.Err)
				}
			}
			assert.Samef(t, []Predicate{sbom, vex}, []Predicate{r.Attestations[0].Predicate, r.Attestations[1].Predicate}, "%s %s", key, format)
			if format == Legacy {
				assert.Equal(t, "registry.example.com/gpu/driver", r.Signatures[0].Identity)
				assert.Equal(t, "registry.example.com/gpu/driver:535.261.03-debian12", r.Signatures[1].Identity)
			}
		}
	}
}

// TestAgain signs a signed image: by the same key nothing is added, by another key what is there stays.
func TestAgain(t *testing.T) {
	t.Parallel()
	first := sign(t, request(Both), "p256")
	assert.Equal(t, 0, len(sign(t, request(Both, first...), "p256")))

	second := sign(t, request(Legacy, first...), "p384") // only what is new
	assert.Equal(t, 2, len(manifest(t, second[1]).Layers))
	r := verify(t, append(slices.Clone(first), second...), "p256", "p384")
	assert.Equal(t, 5, len(r.Signatures)) // two names by each key, and the bundle
	for _, f := range append(r.Signatures, r.Attestations...) {
		assert.NoErrorf(t, f.Err, "%s", f.Where)
	}
	var cf v1.ConfigFile
	require.NoError(t, json.Unmarshal(content(t, second[1].Blobs[2]), &cf))
	for i, l := range manifest(t, second[1]).Layers {
		assert.Equal(t, l.Digest, cf.RootFS.DiffIDs[i])
	}

	more := request(Legacy, first...)
	more.Subjects[0].Predicates = append(more.Subjects[0].Predicates, Predicate{"https://slsa.dev/provenance/v1", json.RawMessage(`{}`)})
	added := sign(t, more, "p256")
	if len(added) != 1 || added[0].Tag != oci.AttestationTag(image.Digest) || len(manifest(t, added[0]).Layers) != 1 {
		t.Errorf("a further attestation gave %d attachments; want .att with one layer", len(added))
	}
}

// TestOnce: the statements of .att and of bundles are signed once.
func TestOnce(t *testing.T) {
	t.Parallel()
	c := &counter{KeySigner: signerOf(t, "p256")}
	require.Value(Sign(t.Context(), request(Both), Once(c)))(t)
	assert.Equal(t, 5, c.n) // two names, two predicates, and the bundle that signs
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	good := signerOf(t, "p256")
	for name, c := range map[string]struct {
		edit   func(*Request)
		signer Signer
		want   string
	}{
		"no image":           {func(r *Request) { r.Subjects = nil }, good, "no image"},
		"no format":          {func(r *Request) { r.Format = "x" }, good, "legacy, bundle or both"},
		"no repository":      {func(r *Request) { r.Repository = "" }, good, "repository"},
		"a tag":              {func(r *Request) { r.Tags = []string{"a b"} }, good, "tag"},
		"no size":            {func(r *Request) { r.Subjects[0].Descriptor.Size = 0 }, good, "size"},
		"no JSON":            {func(r *Request) { r.Subjects[0].Predicates[0].Body = json.RawMessage("{") }, good, "JSON"},
		"no UTF-8":           {func(r *Request) { r.Subjects[0].Predicates[0].Body = json.RawMessage("\"\xff\"") }, good, "JSON"},
		"no type":            {func(r *Request) { r.Subjects[0].Predicates[0].Type = "" }, good, "type"},
		"a faulty token":     {func(*Request) {}, liar{good, keys()["other"].Public()}, "does not fit its public key"},
		"P-521":              {func(*Request) {}, liar{good, keys()["p521"].Public()}, "this key is ECDSA on P-521"},
		"bundle without key": {func(r *Request) { r.Format = Bundle }, liar{good, nil}, "give the public key"},
	} {
		r := request(Legacy)
		c.edit(&r)
		assert.ErrorContainsf(t, assert.Err(Sign(t.Context(), r, c.signer)), c.want, "%s", name)
	}
	assert.ErrorContains(t, assert.Err(NewKeySigner(keys()["p521"])), "ECDSA on P-256 or P-384, RSA of 2048, 3072 or 4096 bits, or Ed25519")
	// Without a public key the legacy format works; nothing is verified then.
	made := require.Value(Sign(t.Context(), request(Legacy), liar{good, nil}))(t)
	report := verify(t, made, "p256")
	assert.NoError(t, report.Err())
}
