package supplychain

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// signingKey is a key, with the files of its private and its public half.
type signingKey struct {
	signer          signature.Signer
	private, public string
}

// signingKeys are of each kind that the project signs with.
func signingKeys(t *testing.T) map[string]signingKey {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	keys := map[string]signingKey{}
	file := func(kind string, der []byte) string {
		return testfile.Write(t, filepath.Join(t.TempDir(), "key"), testcert.PEM(kind, der))
	}
	for kind, key := range map[string]crypto.Signer{
		"ed25519": ed,
		"p256":    testcert.Key(),
		"p384":    require.Value(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t),
		"rsa":     testcert.RSA(),
	} {
		keys[kind] = signingKey{require.Value(signature.NewKeySigner(key))(t),
			file("PRIVATE KEY", require.Value(x509.MarshalPKCS8PrivateKey(key))(t)),
			file("PUBLIC KEY", require.Value(x509.MarshalPKIXPublicKey(key.Public()))(t))}
	}
	return keys
}

// project is the project's own side: it pushes and signs.
type project struct{ *registry.Client }

func newProject(t *testing.T) project {
	t.Helper()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	c := require.Value(registry.New(registry.Options{Store: store}))(t)
	t.Cleanup(c.Close)
	return project{c}
}

// push pushes an index of images for two architectures, REPOSITORY:1. It returns what is to be signed: the
// images, and the index last.
func (p project) push(t *testing.T, repository string) []signature.Subject {
	t.Helper()
	amd, arm := imagetest.RandomImage(t, "amd64", 1000, repository, "amd"), imagetest.RandomImage(t, "arm64", 1000, repository, "arm")
	index := imagetest.Index(t, amd, arm)
	_, _, err := p.Push(t.Context(), repository+":1", index)
	require.NoError(t, err)
	all := require.Value(oci.Collect(index))(t)
	var subjects []signature.Subject
	for _, d := range all.Documents {
		subjects = append(subjects, signature.Subject{Descriptor: v1.Descriptor{MediaType: d.Desc.MediaType, Size: d.Desc.Size, Digest: d.Desc.Digest}})
	}
	return subjects
}

// sign signs the subjects as images of a repository with the tag 1, and attests predicates to each.
func sign(t *testing.T, key signingKey, f signature.Format, repository string, subjects []signature.Subject, predicates ...signature.Predicate) []oci.Attachment {
	t.Helper()
	all := slices.Clone(subjects)
	for i := range all {
		all[i].Predicates = predicates
	}
	r := signature.Request{Repository: repository, Tags: []string{"1"}, Subjects: all, Format: f}
	return require.Value(signature.Sign(t.Context(), r, key.signer))(t)
}

// attach pushes attachments of the images of a repository.
func (p project) attach(t *testing.T, repository string, all []oci.Attachment) {
	t.Helper()
	require.Value(p.Attach(t.Context(), repository+":1", all...))(t)
}

// predicates are documents of all kinds, with cosign's names of their types.
func predicates(t *testing.T) map[string]signature.Predicate {
	t.Helper()
	read := func(name string) json.RawMessage {
		return require.Value(os.ReadFile(filepath.Join("testdata", name)))(t)
	}
	var statement struct{ Predicate json.RawMessage }
	require.NoError(t, json.Unmarshal(read("provenance.json"), &statement))
	return map[string]signature.Predicate{
		"spdxjson":        {Type: "https://spdx.dev/Document", Body: read("spdx.json")},
		"slsaprovenance1": {Type: "https://slsa.dev/provenance/v1", Body: statement.Predicate},
		"openvex":         {Type: "https://openvex.dev/ns", Body: read("openvex.json")},
		"cyclonedx":       {Type: "https://cyclonedx.org/bom", Body: read("cyclonedx.json")},
	}
}
