package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/signature"
)

// attested builds an image into a layout, attests its provenance in it, and returns its reference and the
// file of the public key.
func (u *user) attested(t *testing.T) (ref, key string) {
	t.Helper()
	args := []string{"--os", "debian12", "--driver", newDriver}
	digest := u.Run(t, append(args, "--output", "oci:"+u.Path("dist"))...).Digest(t)
	var r recipe.Recipe
	require.NoError(t, json.Unmarshal([]byte(u.Run(t, append(args, "--dry-run")...).Stdout), &r))
	body := require.Value(documents.Provenance(&r, documents.Run{}))(t)
	image := require.Value(oci.OpenLocal(t.Context(), "oci:"+u.Path("dist")))(t)
	raw := require.Value(os.ReadFile(u.Path("dist/blobs/sha256/" + digest)))(t)
	private := require.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	all := require.Value(signature.Sign(t.Context(), signature.Request{Format: signature.Both, Repository: "registry.example.com/driver",
		Subjects: []signature.Subject{{
			Descriptor: v1.Descriptor{MediaType: "application/vnd.oci.image.manifest.v1+json", Size: int64(len(raw)), Digest: oci.HashOf(raw)},
			Predicates: []signature.Predicate{{Type: documents.ProvenanceType, Body: body}},
		}}}, require.Value(signature.NewKeySigner(private))(t)))(t)
	require.NoError(t, oci.WriteLayout(t.Context(), u.Path("attested"), r.Tag, image, all...))
	ref = "oci:" + u.Path("attested")
	key = u.Path("key.pub")
	der := require.Value(x509.MarshalPKIXPublicKey(private.Public()))(t)
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	return ref, key
}

// TestRebuild: the same image, from the cache without a network and without one from the repositories.
func TestRebuild(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ref, key := u.attested(t)
	r := u.Run(t, "verify", ref, "--rebuild", "--key", key, "--offline")
	r.Want(t, 0)
	assert.Contains(t, r.Stdout, "with the same digest")
	r = u.Run(t, "verify", ref, "--rebuild", "--arch", "amd64", "-o", "json")
	r.Want(t, 0)
	assert.Contains(t, r.Stdout, "the provenance is not authenticated")
	u.Cache = t.TempDir()
	u.Run(t, "verify", ref, "--rebuild", "--offline").Want(t, 4, "offline")
	u.Fault(func(rw http.ResponseWriter, r *http.Request) bool {
		gone := strings.HasSuffix(r.URL.Path, ".deb")
		if gone {
			http.Error(rw, "no", http.StatusNotFound)
		}
		return gone
	})
	u.Run(t, "verify", ref, "--rebuild").Want(t, 4, "again", ".deb")
	u.Fault(nil)
	u.Run(t, "verify", ref, "--rebuild").Want(t, 0)
}

// TestRebuildFailures: differences and missing provenances have exit code 5, mistakes 2.
func TestRebuildFailures(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ref, key := u.attested(t)
	other := newUser(t)
	_, foreign := other.attested(t)
	r := u.Run(t, "verify", ref, "--rebuild", "--key", foreign)
	r.Want(t, 5)
	assert.Contains(t, r.Stdout, "error: rebuild: ")
	assert.Contains(t, r.Stdout, "has no provenance to build it from (")
	assert.Contains(t, r.Stdout, ".att: none of the given keys made it")
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--output", "oci:"+u.Path("plain")).Want(t, 0)
	r = u.Run(t, "verify", "oci:"+u.Path("plain"), "--rebuild", "--key", key)
	r.Want(t, 5)
	assert.Contains(t, r.Stdout, "driver-build --lock")
	u.Run(t, "verify", ref, "--base", "oci:x").Want(t, 2, "--rebuild")
	u.Run(t, "verify", ref, "--rebuild", "--base", "oci:").Want(t, 2)
	u.Run(t, "verify", ref, "--rebuild", "--source", "ftp://x/y").Want(t, 2, "--source")
	u.Run(t, "verify", ref, "--rebuild", "--key", u.Path("none")).Want(t, 2, "--key")
}

// TestRebuildPushed: what a build pushed with its provenance, an index of two architectures, is built again
// by another machine.
func TestRebuildPushed(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	private, public := u.imageKey(t, "image")
	repository := u.Host + "/team/driver"
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--arch", "amd64", "--arch", "arm64", "--push", "--repository", repository,
		"--provenance", "--sbom", "--image-key", private).Want(t, 0)
	u.Cache = t.TempDir()
	r := u.Run(t, "verify", repository+":"+newDriver+"-debian12", "--rebuild", "--key", public)
	r.Want(t, 0)
	for _, part := range []string{"(amd64): built again from its provenance", "(arm64): built again",
		"the index of these images has the same digest"} {
		assert.Contains(t, r.Stdout, part)
	}
}

// TestRecipe: the recipe that --dry-run prints, and a provenance of it, give the same image again without a matrix.
func TestRecipe(t *testing.T) {
	t.Parallel()
	for system, driver := range map[string]string{"debian12": newDriver, "ubuntu18.04": oldDriver} {
		u := newUser(t)
		args := []string{"--os", system, "--driver", driver}
		want := u.Run(t, append(args, "--output", "oci:"+u.Path("one"))...).Digest(t)
		printed := u.Run(t, append(args, "--dry-run")...).Stdout
		require.NoError(t, os.WriteFile(u.Path("recipe.json"), []byte(printed), 0o600))
		r := require.Value(recipe.Decode([]byte(printed)))(t)
		body := require.Value(documents.Provenance(r, documents.Run{}))(t)
		require.NoError(t, os.WriteFile(u.Path("provenance.json"), body, 0o600))
		u.Cache = t.TempDir()
		for _, file := range []string{"recipe.json", "provenance.json"} {
			assert.Equal(t, want, u.Run(t, "--recipe", u.Path(file), "--output", "oci:"+u.Path(file+"-image")).Digest(t))
		}
		assert.Equal(t, printed, u.Run(t, "--recipe", u.Path("recipe.json"), "--dry-run").Stdout)
		u.Run(t, append(args, "--recipe", u.Path("recipe.json"))...).Want(t, 2, "--recipe says what is built")
		u.Run(t, "--recipe", u.Path("matrix.yaml"), "--output", "oci:"+u.Path("x")).Want(t, 2, "--recipe", "matrix.yaml")
	}
}
