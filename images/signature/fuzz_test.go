package signature

import (
	"crypto"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
)

// nobody is a digest that no seed is about.
var nobody = v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: 1, Digest: oci.HashOf([]byte("nobody signed this"))}

// fuzz judges a document that is one layer. The seeds are good for the image; nothing may be good
// for another.
func fuzz(f *testing.F, format Format, to storage, mediaType types.MediaType) {
	for _, a := range sign(f, request(format), "ed25519") {
		if to != bundle && !strings.HasSuffix(a.Tag, string(to)) {
			continue
		}
		for _, b := range a.Blobs {
			if b.Desc.MediaType == mediaType {
				f.Add(content(f, b), b.Desc.Annotations[signatureAnnotation])
			}
		}
	}
	public := []crypto.PublicKey{keys()["ed25519"].Public(), keys()["p256"].Public()}
	f.Fuzz(func(t *testing.T, raw []byte, annotation string) {
		b := oci.BytesBlob(mediaType, raw, map[string]string{signatureAnnotation: annotation})
		for _, d := range []v1.Descriptor{image, nobody} {
			a := require.Value(newTagged(d.Digest, to, []oci.Blob{b}))(t)
			if to == bundle {
				a.Tag = ""
			}
			r := require.Value(Verify([]Subject{{Descriptor: d, Attachments: []oci.Attachment{a}}}, public))(t)[0]
			all := append(r.Signatures, r.Attestations...)
			if len(all) != 1 {
				t.Fatalf("%d findings; want one", len(all))
			}
			switch found := all[0]; {
			case d.Digest == nobody.Digest && (found.Err == nil || r.Err() == nil):
				t.Errorf("good for an image that nobody signed: %+v", found)
			case found.Err != nil && (found.Identity != "" || found.Predicate.Type != ""):
				t.Errorf("says something that is not verified: %+v", found)
			case found.Err == nil && len(found.Keys) != 1:
				t.Errorf("good by the keys %v", found.Keys)
			}
		}
	})
}

func FuzzPayload(f *testing.F)  { fuzz(f, Legacy, sigTag, payloadMediaType) }
func FuzzEnvelope(f *testing.F) { fuzz(f, Legacy, attTag, envelopeMediaType) }
func FuzzBundle(f *testing.F)   { fuzz(f, Bundle, bundle, bundleMediaType) }
