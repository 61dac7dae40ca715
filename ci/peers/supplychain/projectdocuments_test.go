package supplychain

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/package-url/packageurl-go"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/signature"
)

// golden are documents that the project's tests compare with what it writes. Their packages judge the parts
// of a provenance; here it is a whole statement.
var golden = map[string]Kind{
	"../../../images/testdata/sbom.spdx.json":       SPDX,
	"../../../images/testdata/sbom-alone.spdx.json": SPDX,
	"../../../images/testdata/sbom.cdx.json":        CycloneDX,
}

// TestProjectDocuments: the formats' own libraries accept the project's documents, and the statements that
// attest them.
func TestProjectDocuments(t *testing.T) {
	judged(t)
	for file, kind := range golden {
		path := require.Value(filepath.Abs(file))(t)
		assert.NoErrorf(t, Validate(t, kind, path), "%s", kind)
		system, found := TrivyReads(t, path)
		assert.Equalf(t, "debian 12", system, "the system that trivy looks for in %s", file)
		listed := regexp.MustCompile(`"(pkg:deb/[^"]*)"`).FindAllString(testfile.Read(t, path), -1)
		assert.Equalf(t, len(listed), len(Installed(t, found)), "packages that trivy finds in %s", file)
		for i, text := range found {
			if strings.HasPrefix(text, "pkg:deb/") {
				p := require.Value(packageurl.FromString(text))(t)
				source, _, _ := strings.Cut(cmp.Or(p.Qualifiers.Map()["upstream"], p.Name), "@")
				assert.Equalf(t, "source "+source, found[i+1], "%s in %s", text, file)
			}
		}
	}
	img := imagetest.RandomImage(t, "amd64", 1000, "layer")
	all := require.Value(oci.Collect(img))(t)
	subject := all.Documents[0].Desc
	predicates := []signature.Predicate{{Type: "https://slsa.dev/provenance/v1",
		Body: require.Value(os.ReadFile("../../../images/documents/testdata/provenance.json"))(t)}}
	attachments := sign(t, signingKeys(t)["p256"], signature.Both, "registry.example.com/gpu/driver", []signature.Subject{{Descriptor: subject}}, predicates...)
	found := 0
	for _, payload := range payloads(t, attachments) {
		file := testfile.Write(t, filepath.Join(t.TempDir(), "statement.json"), string(payload))
		kind := Statement
		if strings.Contains(string(payload), predicates[0].Type) {
			kind, found = Provenance, found+1
		}
		assert.NoErrorf(t, Validate(t, kind, file), "%s", payload)
	}
	assert.Equalf(t, 2, found, "statements with the provenance: in .att, and in a bundle")
}

// payloads are the statements in the envelopes of attachments.
func payloads(t *testing.T, attachments []oci.Attachment) [][]byte {
	t.Helper()
	var found [][]byte
	for _, a := range attachments {
		var m v1.Manifest
		require.NoError(t, json.Unmarshal(a.Manifest.Raw, &m))
		for _, l := range m.Layers {
			type envelope struct{ Payload []byte }
			var e struct {
				envelope
				DSSEEnvelope envelope `json:"dsseEnvelope"`
			}
			r := require.Value(a.Blobs[indexOf(a.Blobs, l.Digest)].Open())(t)
			require.NoError(t, json.Unmarshal(require.Value(io.ReadAll(r))(t), &e))
			require.NoError(t, r.Close())
			if payload := slices.Concat(e.Payload, e.DSSEEnvelope.Payload); len(payload) > 0 {
				found = append(found, payload)
			}
		}
	}
	return found
}
