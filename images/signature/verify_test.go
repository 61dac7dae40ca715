package signature

import (
	"crypto"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// TestCosign verifies what cosign and Skopeo made.
func TestCosign(t *testing.T) {
	t.Parallel()
	var layers []oci.Blob
	for _, name := range []string{"cosign", "skopeo"} {
		var layer struct {
			Payload     []byte            `json:"payload"`
			Annotations map[string]string `json:"annotations"`
		}
		require.NoError(t, json.Unmarshal(file(t, "sig-"+name+".json"), &layer))
		layers = append(layers, oci.BytesBlob(payloadMediaType, layer.Payload, layer.Annotations))
	}
	s := Subject{Descriptor: v1.Descriptor{Digest: hash("634a8f35b5f16dcf4aaa0822adc0b1964bb786fca12f6831de8ddc45e5986a00")}}
	s.Attachments = []oci.Attachment{require.Value(newTagged(s.Descriptor.Digest, sigTag, layers))(t)}
	r := verifyWith(t, s, "sig.pub")
	require.NoError(t, r.Err())
	require.NoError(t, r.Signatures[1].Err)
	assert.Equal(t, "192.168.64.2:5000/cosign-signed-single-sample", r.Signatures[0].Identity)
	assert.Equal(t, "192.168.64.2:5000/skopeo-signed:tag", r.Signatures[1].Identity)
	payload := require.Value(encodePayload(r.Signatures[0].Identity, s.Descriptor.Digest))(t)
	assert.Equal(t, string(content(t, layers[0])), string(payload))
}

// TestCosignStatements verifies attestations and bundles that cosign 2 and 3 made.
func TestCosignStatements(t *testing.T) {
	t.Parallel()
	s := Subject{Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: 402, Digest: hash("7ab67e86f865422b61e112dd6ff662f545f358a1430556b2a41501e49b564819")}}
	for name, predicate := range map[string]string{"sign-cosign3.json": signPredicate, "attest-cosign3.json": "https://example.com/answer"} {
		s.Attachments = append(s.Attachments, require.Value(oci.NewReferrer(s.Descriptor, bundleMediaType,
			[]oci.Blob{oci.BytesBlob(bundleMediaType, file(t, name), nil)}, map[string]string{bundlePredicateAnnotation: predicate}))(t))
	}
	att := oci.BytesBlob(envelopeMediaType, file(t, "att-cosign2.json"), nil)
	s.Attachments = append(s.Attachments, require.Value(newTagged(s.Descriptor.Digest, attTag, []oci.Blob{att}))(t))
	r := verifyWith(t, s, "cosign.pub")
	require.NoError(t, r.Err())
	assert.Equal(t, 1, len(r.Signatures))
	assert.Equal(t, 2, len(r.Attestations))
	for _, f := range r.Attestations {
		require.NoErrorf(t, f.Err, "%s", f.Where)
		assert.Equal(t, `https://example.com/answer {"answer":42}`, f.Predicate.Type+" "+string(f.Predicate.Body))
	}
	var b sigstoreBundle // the hint of the key is cosign's too
	require.NoError(t, json.Unmarshal(file(t, "sign-cosign3.json"), &b))
	assert.Equal(t, r.Signatures[0].Keys[0], hex.EncodeToString(b.VerificationMaterial.PublicKey.Hint))
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	return require.Value(os.ReadFile("testdata/" + name))(t)
}

func hash(hex string) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: hex} }

func verifyWith(t *testing.T, s Subject, public string) Report {
	t.Helper()
	return require.Value(Verify([]Subject{s}, require.Value(keyfile.LoadPublic("testdata/"+public, time.Now()))(t)))(t)[0]
}

// swap replaces the first occurrence in a text, or inside of its base64.
func swap(old, with string) func(string) string {
	return func(text string) string {
		if strings.Contains(text, old) {
			return strings.Replace(text, old, with, 1)
		}
		before, rest, _ := strings.Cut(text, `"payload":"`)
		middle, after, _ := strings.Cut(rest, `"`)
		raw, _ := base64.StdEncoding.DecodeString(middle)
		return before + `"payload":"` + base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(raw), old, with, 1))) + `"` + after
	}
}

// TestTampered changes each part of each format. Nothing of what is returned can be taken for good.
func TestTampered(t *testing.T) {
	t.Parallel()
	one := func(f Format, p ...Predicate) []oci.Attachment {
		r := request(f)
		r.Tags, r.Subjects[0].Predicates = nil, p
		return sign(t, r, "p256")
	}
	sig, att, bundles := one(Legacy)[0], one(Legacy, sbom)[0], one(Bundle, sbom)
	otherImage := request(Legacy)
	otherImage.Tags = nil
	otherImage.Subjects[0].Descriptor, otherImage.Subjects[0].Predicates = index, []Predicate{sbom}
	moved := sign(t, otherImage, "p256")
	moved[0].Tag, moved[1].Tag = att.Tag, sig.Tag
	otherImage.Format = Bundle
	movedBundles := sign(t, otherImage, "p256")
	digest, foreign := strings.TrimPrefix(image.Digest.String(), "sha256:"), strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		a    oci.Attachment
		key  string
		want error
	}{
		".sig, payload":             {changed(t, sig, swap("gpu/driver", "gpu/other!")), "p256", ErrForeign},
		".sig, digest":              {changed(t, sig, swap(digest, foreign)), "p256", ErrForeign},
		".sig, other key":           {sig, "other", ErrForeign},
		".sig, signature":           {withSignature(t, sig, "AAAA"), "p256", ErrForeign},
		".sig, no base64":           {withSignature(t, sig, "!"), "p256", ErrMalformed},
		".sig, no signature":        {withSignature(t, sig, ""), "p256", ErrForeign},
		".sig of another image":     {moved[1], "p256", ErrSubject},
		".att, statement":           {changed(t, att, swap("SPDX-2.3", "SPDX-2.2")), "p256", ErrForeign},
		".att, digest":              {changed(t, att, swap(digest, foreign)), "p256", ErrForeign},
		".att, type of the payload": {changed(t, att, swap(statementType, "application/json")), "p256", ErrMalformed},
		".att, other key":           {att, "other", ErrForeign},
		".att of another image":     {moved[0], "p256", ErrSubject},
		".att, no envelope":         {changed(t, att, func(string) string { return "[]" }), "p256", ErrMalformed},
		".att, no signature":        {changed(t, att, func(s string) string { return s[:strings.Index(s, `"signatures"`)] + `"signatures":[]}` }), "p256", ErrMalformed},
		".att, more behind":         {changed(t, att, func(s string) string { return s + "{}" }), "p256", ErrMalformed},
		"bundle, statement":         {changed(t, bundles[1], swap("SPDX-2.3", "SPDX-2.2")), "p256", ErrForeign},
		"bundle, predicate type":    {changed(t, bundles[1], swap("https://spdx.dev/Document", signPredicate)), "p256", ErrForeign},
		"bundle, other key":         {bundles[0], "other", ErrForeign},
		"bundle of another image":   {movedBundles[0], "p256", ErrSubject},
		"attested other image":      {movedBundles[1], "p256", ErrSubject},
		"bundle, not one":           {changed(t, bundles[0], swap(bundleMediaType, "text/plain")), "p256", ErrMalformed},
		"bundle of a file":          {changed(t, bundles[0], func(string) string { return `{"mediaType":"` + bundleMediaType + `","messageSignature":{}}` }), "p256", ErrMalformed},
		"bundle, empty":             {changed(t, bundles[0], func(string) string { return `{"mediaType":"` + bundleMediaType + `"}` }), "p256", ErrMalformed},
	} {
		r := verify(t, []oci.Attachment{c.a}, c.key)
		all := append(r.Signatures, r.Attestations...)
		if len(all) != 1 || !errors.Is(all[0].Err, c.want) || all[0].Identity != "" || all[0].Predicate.Type != "" {
			t.Errorf("%s: %+v; want %v", name, all, c.want)
		}
		if r.Err() == nil {
			t.Errorf("%s: the image counts as signed", name)
		}
		// A good signature beside it counts.
		r = verify(t, []oci.Attachment{c.a, bundles[0], one(Legacy)[0]}, "p256")
		assert.NoErrorf(t, r.Err(), "%s, beside a good signature", name)
	}
}

func withSignature(t *testing.T, a oci.Attachment, text string) oci.Attachment {
	t.Helper()
	m := manifest(t, a)
	m.Layers[0].Annotations[signatureAnnotation] = text
	return rewritten(t, a, m, a.Blobs...)
}

func TestUnsigned(t *testing.T) {
	t.Parallel()
	r := verify(t, nil, "p256")
	assert.ErrorIs(t, r.Err(), ErrUnsigned)
	// What is no signature is skipped: an SBOM as a referrer, the tags of other images, an index of referrers.
	spdx := require.Value(oci.NewReferrer(image, "application/spdx+json", []oci.Blob{oci.BytesBlob("application/spdx+json", []byte("{}"), nil)}, nil))(t)
	r = verify(t, []oci.Attachment{spdx, {Tag: oci.SignatureTag(index.Digest)}, {Tag: oci.ReferrersTag(image.Digest)}}, "p256")
	assert.ErrorIs(t, r.Err(), ErrUnsigned)
	assert.Equal(t, false, r.Hidden)
	// An attestation is no signature.
	r = verify(t, sign(t, request(Bundle), "p256")[1:], "p256")
	assert.ErrorIs(t, r.Err(), ErrUnsigned)
	assert.Equal(t, 2, len(r.Attestations))
	// A manifest that cannot be read is a finding.
	r = verify(t, []oci.Attachment{{Tag: oci.SignatureTag(image.Digest), Manifest: oci.Document{Raw: []byte("{")}}}, "p256")
	assert.ErrorIs(t, r.Err(), ErrMalformed)
}

// TestHidden: bundles of others hide a good .sig from cosign.
func TestHidden(t *testing.T) {
	t.Parallel()
	legacy, foreign := sign(t, request(Legacy), "p256"), sign(t, request(Bundle), "other")
	r := verify(t, append(foreign, legacy...), "p256")
	assert.NoError(t, r.Err())
	assert.Equal(t, true, r.Hidden)
	r = verify(t, append(foreign, sign(t, request(Both, foreign...), "p256")...), "p256")
	assert.NoError(t, r.Err())
	assert.Equal(t, false, r.Hidden)
}

// TestEachImage: reports are in the order of the subjects, each of its own.
func TestEachImage(t *testing.T) {
	t.Parallel()
	key := keys()["p256"].Public()
	reports := require.Value(Verify([]Subject{{Descriptor: index}, {Descriptor: image, Attachments: sign(t, request(Legacy), "p256")}}, []crypto.PublicKey{key, key}))(t)
	assert.ErrorIs(t, reports[0].Err(), ErrUnsigned)
	assert.NoError(t, reports[1].Err())
	assert.Equal(t, 1, len(reports[1].Signatures[0].Keys)) // one key, given twice
	assert.ErrorContains(t, reports[0].Err(), index.Digest.String())
	assert.ErrorContains(t, assert.Err(Verify(nil, nil)), "no public key")
	assert.ErrorContains(t, assert.Err(Verify(nil, []crypto.PublicKey{keys()["p521"].Public()})), "P-521")
}

// TestUnreadable: what cannot be fetched is no missing signature.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	sig := sign(t, request(Legacy), "p256")[1]
	gone := errors.New("the registry is gone")
	broken := func(open func() (io.ReadCloser, error)) oci.Attachment {
		a := sig
		a.Blobs = []oci.Blob{{Desc: sig.Blobs[0].Desc, Open: open}}
		return a
	}
	for name, c := range map[string]struct {
		a    oci.Attachment
		want string
	}{
		"not opened": {broken(func() (io.ReadCloser, error) { return nil, gone }), gone.Error()},
		"cut":        {broken(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("{")), nil }), "is not what was asked for"},
		"longer":     {broken(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(strings.Repeat("x", 1000))), nil }), "is not what was asked for"},
		"missing":    {oci.Attachment{Tag: sig.Tag, Manifest: sig.Manifest}, "missing"},
	} {
		s := []Subject{{Descriptor: image, Attachments: []oci.Attachment{c.a}}}
		assert.ErrorContainsf(t, assert.Err(Verify(s, []crypto.PublicKey{keys()["p256"].Public()})), c.want, "%s", name)
		assert.ErrorContainsf(t, assert.Err(Sign(t.Context(), request(Legacy, c.a), signerOf(t, "p256"))), c.want, "%s", name)
	}
}

// TestBounds: sizes are judged by the manifest, before anything is opened.
func TestBounds(t *testing.T) {
	t.Parallel()
	attachment := func(size int64, n int) oci.Attachment {
		m := &v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Digest: image.Digest}}
		for range n {
			m.Layers = append(m.Layers, v1.Descriptor{MediaType: bundleMediaType, Size: size, Digest: image.Digest})
		}
		return rewritten(t, oci.Attachment{}, m)
	}
	r := verify(t, []oci.Attachment{attachment(maxBundle+1, 1)}, "p256")
	assert.ErrorIs(t, r.Attestations[0].Err, ErrMalformed)
	for name, junk := range map[string]oci.Attachment{"number": attachment(maxBundle+1, maxDocuments+2), "bytes": bytesBeyond(t)} {
		r = verify(t, []oci.Attachment{junk}, "p256")
		assert.ErrorIsf(t, r.Attestations[len(r.Attestations)-1].Err, errBeyond, "%s", name)
		assert.ErrorIsf(t, r.Attestations[len(r.Attestations)-1].Err, ErrMalformed, "%s", name)
		r = verify(t, append(sign(t, request(Legacy), "p256"), junk), "p256")
		assert.NoErrorf(t, r.Err(), "%s: a good signature before it", name)
		assert.ErrorIsf(t, assert.Err(Sign(t.Context(), request(Legacy, junk), signerOf(t, "p256"))), ErrMalformed, "%s: what is added would not be read", name)
	}
	e := envelope{Payload: []byte("{}"), PayloadType: statementType, Signatures: make([]envelopeSignature, maxEnvelopeSignatures+1)}
	assert.ErrorContains(t, assert.Err(decodeEnvelope(require.Value(json.Marshal(e))(t), attTag)), "9 signatures, not 1 to 8")
	assert.ErrorContains(t, assert.Err(decodePayload(make([]byte, maxPayload+1))), "more than 65536")
}

// bytesBeyond has five bundles that are too large together.
func bytesBeyond(t *testing.T) oci.Attachment {
	t.Helper()
	b := oci.BytesBlob(bundleMediaType, make([]byte, maxTotal/5+1), nil)
	a := require.Value(newTagged(image.Digest, "", slices.Repeat([]oci.Blob{b}, 5)))(t)
	a.Tag = ""
	return a
}

// TestNames: no name of what is judged is read in another spelling or where it is twice, as encoding/json does.
func TestNames(t *testing.T) {
	t.Parallel()
	dsse := `{"payload":"e30=","payloadType":"` + statementType + `","signatures":[{"keyid":"k","sig":"AAAA"}]}`
	for text, read := range map[string]func(text string) (any, error){
		`{"critical":{"identity":{"docker-reference":"r"},"image":{"docker-manifest-digest":"d"},"type":"` + payloadType + `"},"optional":{"a":1}}`: func(text string) (any, error) {
			return decodePayload([]byte(text))
		},
		dsse: func(text string) (any, error) { return decodeEnvelope([]byte(text), attTag) },
		`{"mediaType":"` + bundleMediaType + `","dsseEnvelope":` + dsse + `}`: func(text string) (any, error) { return decodeEnvelope([]byte(text), bundle) },
		`{"_type":"` + statementV1 + `","subject":[{"digest":{"sha256":"d"}}],"predicateType":"p","predicate":{}}`: func(text string) (any, error) {
			return decodeStatement([]byte(text))
		},
	} {
		good := require.Value(read(text))(t)
		for _, name := range regexp.MustCompile(`"[_a-zA-Z-]+":`).FindAllString(text, -1) {
			got, err := read(strings.Replace(text, name, strings.ToUpper(name), 1))
			if name == `"_type":` || name == `"a":` || name == `"sha256":` {
				continue // upper case of it is another name, or a value of a map
			}
			if err == nil && reflect.DeepEqual(got, good) {
				t.Errorf("%s is read as %s", strings.ToUpper(name), name)
			}
			assert.Errorf(t, assert.Err(read(strings.Replace(text, name, name+"null,"+name, 1))), "%s twice", name)
		}
	}
}

// TestUnverified: attestations of anybody are read, in both formats; one about another image or malformed says so.
func TestUnverified(t *testing.T) {
	t.Parallel()
	made := sign(t, request(Both), "p256")
	att := made[slices.IndexFunc(made, func(a oci.Attachment) bool { return a.Tag == oci.AttestationTag(image.Digest) })]
	read := func(about v1.Descriptor, all ...oci.Attachment) []Verdict {
		return require.Value(Unverified([]Subject{{Descriptor: about, Attachments: all}}))(t)[0].Attestations
	}
	found := read(image, made...)
	assert.Equal(t, 4, len(found))
	for _, f := range found {
		if f.Err != nil || len(f.Keys) > 0 || f.Predicate.Type == "" {
			t.Errorf("%+v", f)
		}
	}
	for _, f := range read(index, made...) {
		assert.ErrorIs(t, f.Err, ErrSubject)
	}
	for _, f := range read(image, changed(t, att, func(string) string { return "{" })) {
		assert.ErrorIs(t, f.Err, ErrMalformed)
	}
}
