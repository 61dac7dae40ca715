package main

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/recipe"
)

// imageKey writes a key that signs the same bytes each time, and its public key.
func (u *user) imageKey(t *testing.T, name string) (private, public string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return u.keyPair(t, name, key, plain)
}

// keyPair writes a private key, and its public key to NAME.pub.
func (u *user) keyPair(t *testing.T, name string, key crypto.Signer, seal func([]byte) (kind string, content []byte)) (private, public string) {
	t.Helper()
	kind, content := seal(require.Value(x509.MarshalPKCS8PrivateKey(key))(t))
	der := require.Value(x509.MarshalPKIXPublicKey(key.Public()))(t)
	private, public = u.Path(name+".key"), u.Path(name+".pub")
	require.NoError(t, errors.Join(os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600),
		os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600)))
	return private, public
}

func plain(der []byte) (string, []byte) { return "PRIVATE KEY", der }

// TestBuildSigned: a build signs what it writes and pushes, with SBOM and provenance of the index and each
// image; verify wants that of the right key.
func TestBuildSigned(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	key, public := u.imageKey(t, "site")
	_, other := u.imageKey(t, "other")
	repository := u.Host + "/team/driver"
	args := []string{"--os", "debian12", "--driver", newDriver, "--arch", "amd64,arm64", "--output", "oci:" + u.Path("dist"), "--output", "oci-archive:" + u.Path("image.tar"),
		"--push", "--repository", repository, "--image-key", key, "--sbom", "--provenance"}
	first := u.Run(t, args...).Want(t, 0)
	ref := repository + ":535.261.03-debian12"
	for _, image := range []string{ref, "oci:" + u.Path("dist"), "oci-archive:" + u.Path("image.tar")} {
		r := u.Run(t, "verify", image, "--arch", "arm64", "--key", other, "--key", public).Want(t, 0)
		for part, n := range map[string]int{"note: image-signature: ": 3, ": https://spdx.dev/Document by key": 3, ": https://slsa.dev/provenance/v1 by key": 4, "warning: ": 0} {
			if got := strings.Count(r.Stdout, part); got != n {
				t.Errorf("%s: %d times %q, want %d\n%s", image, got, part, n, r.Stdout)
			}
		}
		assert.Contains(t, r.Stdout, " as "+repository+", "+ref+"\n")
		r = u.Run(t, "verify", image, "--key", other).Want(t, session.ExitMismatch)
		assert.Contains(t, r.Stdout, "error: image-signature: ")
	}
	again := u.Run(t, append(args, "--offline")...).Want(t, 0)
	assert.Equal(t, first.Stdout, again.Stdout)
	r := u.Run(t, "verify", ref, "--key", public)
	assert.Equalf(t, 3, strings.Count(r.Stdout, "note: image-signature: "), "%s", r.Stdout)

	u.Run(t, "--os", "debian12", "--driver", newDriver, "--output", "oci:"+u.Path("plain"), "--sbom=cyclonedx").Want(t, 0) // without a key
	index := string(require.Value(os.ReadFile(u.Path("plain/index.json")))(t))
	assert.Containsf(t, index, "application/vnd.cyclonedx+json", "index.json")
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
	r := u.Run(t, "verify", repository+":"+newDriver+"-debian12", "--rebuild", "--key", public).Want(t, 0)
	for _, part := range []string{"(amd64): built again from its provenance", "(arm64): built again",
		"the index of these images has the same digest"} {
		assert.Contains(t, r.Stdout, part)
	}
	_, foreign := u.imageKey(t, "foreign")
	r = u.Run(t, "verify", repository+":"+newDriver+"-debian12", "--rebuild", "--key", foreign).Want(t, 5)
	assert.Contains(t, r.Stdout, ".att: none of the given keys made it")
	u.Run(t, "verify", u.Base("debian12"), "--rebuild", "--source", "ftp://x/y").Want(t, 2, "--source")
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
