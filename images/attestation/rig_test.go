package attestation_test

import (
	"crypto"
	"crypto/ecdsa"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/programtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/attestation"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/images/verify"
)

// keys are those of the signer of provenances, and another one.
var keys = sync.OnceValue(func() [2]*ecdsa.PrivateKey { return [2]*ecdsa.PrivateKey{testcert.Key(), testcert.Key()} })

func trusted() attestation.Rebuild {
	return attestation.Rebuild{Keys: []crypto.PublicKey{keys()[0].Public()}}
}

// world is what both machines reach: repositories, and a registry.
type world struct {
	*imagetest.World
	matrix string
	b      *images.Builder // of the machine that builds and attests
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := imagetest.New(t)
	return &world{w, w.Matrix(), machine(t)}
}

// machine is a builder with a cache of its own.
func machine(t *testing.T) *images.Builder {
	t.Helper()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	client := require.Value(registry.New(registry.Options{Store: store, Attempts: 2, Backoff: time.Millisecond}))(t)
	t.Cleanup(client.Close)
	files := &fetch.Client{Store: store, Attempts: 2, Backoff: time.Millisecond}
	return &images.Builder{
		Store: store, Fetch: files, Registry: client,
		Info: recipe.BuilderInfo{Version: "v0.0.1", Revision: "abc"}, Binaries: programtest.Make(t, "one"),
	}
}

// built is an image and what it was made of.
type built struct {
	v1.Image
	recipe *recipe.Recipe
}

func (w *world) build(t *testing.T, s matrix.Selection, o recipe.Options) built {
	t.Helper()
	m := require.Value(matrix.Parse("matrix.yaml", []byte(w.matrix)))(t)
	targets := require.Value(m.Select(s))(t)
	r := require.Value(w.b.Plan(t.Context(), images.Request{Targets: targets[:1], Options: o}))(t)[0]
	return built{require.Value(w.b.Build(t.Context(), r))(t), r}
}

// predicate is the provenance of a build.
func (b built) predicate(t *testing.T) string {
	t.Helper()
	return string(require.Value(documents.Provenance(b.recipe, documents.Run{GoVersion: "go1"}))(t))
}

// statement is a predicate about something, signed with a key.
type statement struct {
	about partial.Describable
	body  string
	key   *ecdsa.PrivateKey
}

// publish pushes an artifact with attestations, and returns its reference.
func (w *world) publish(t *testing.T, artifact oci.Artifact, all ...statement) string {
	t.Helper()
	ref := w.Host + "/site/" + strings.ToLower(strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())) + ":image"
	digest, _, err := w.b.Registry.Push(t.Context(), ref, artifact)
	require.NoError(t, err)
	pinned := strings.TrimSuffix(ref, ":image") + "@" + digest.String()
	for _, s := range all {
		about := require.Value(s.about.Digest())(t)
		plan := attestation.Publication{Repository: strings.TrimSuffix(ref, ":image"), Format: signature.Legacy,
			Signer: require.Value(signature.NewKeySigner(s.key))(t), Documents: []attestation.Document{
				{Subjects: []v1.Hash{about}, Type: documents.ProvenanceType, Body: []byte(s.body)}}}
		have := require.Value(w.b.Registry.Attachments(t.Context(), pinned))(t)
		_, err = w.b.Registry.Attach(t.Context(), pinned, require.Value(plan.Attachments(t.Context(), artifact, have))(t)...)
		require.NoError(t, err)
	}
	return ref
}

// published is an image with its own provenance.
func (w *world) published(t *testing.T, b built) string {
	t.Helper()
	return w.publish(t, b.Image, statement{b.Image, b.predicate(t), keys()[0]})
}

// lines are the findings as they are printed.
func lines(findings []verify.Finding) string {
	var all []string
	for _, f := range findings {
		all = append(all, f.String())
	}
	return strings.Join(all, "\n")
}

// wants checks that findings name what they should, and whether one is an error.
func wants(t *testing.T, findings []verify.Finding, unfit bool, parts ...string) {
	t.Helper()
	text := lines(findings)
	assert.Equalf(t, unfit, verify.Unfit(findings) != nil, "unfit:\n%s", text)
	for _, p := range parts {
		assert.Contains(t, text, p)
	}
}
