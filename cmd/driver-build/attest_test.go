package main

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
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
	return u.file(t, name+".key", testcert.PEM(kind, content)), u.file(t, name+".pub", testcert.PEM("PUBLIC KEY", der))
}

func plain(der []byte) (string, []byte) { return "PRIVATE KEY", der }

// counts checks how often parts are in a text.
func counts(t *testing.T, text string, parts map[string]int) {
	t.Helper()
	for part, n := range parts {
		assert.Equalf(t, n, strings.Count(text, part), "how often there is %q:\n%s", part, text)
	}
}

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
		counts(t, r.Stdout, map[string]int{"note: image-signature: ": 3, ": https://spdx.dev/Document by key": 3, ": https://slsa.dev/provenance/v1 by key": 4, "warning: ": 0})
		assert.Contains(t, r.Stdout, " as "+repository+", "+ref+"\n")
		r = u.Run(t, "verify", image, "--key", other).Want(t, session.ExitMismatch)
		assert.Contains(t, r.Stdout, "error: image-signature: ")
	}
	again := u.Run(t, append(args, "--offline")...).Want(t, 0)
	assert.Equal(t, first.Stdout, again.Stdout)
	u.wantSigned(t, 3, 0, ref, public)

	u.Run(t, "--os", "debian12", "--driver", newDriver, "--output", "oci:"+u.Path("plain"), "--sbom=cyclonedx").Want(t, 0) // without a key
	assert.Containsf(t, testfile.Read(t, u.Path("plain/index.json")), "application/vnd.cyclonedx+json", "index.json")
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
	counts(t, r.Stdout, map[string]int{"(amd64): built again from its provenance": 1, "(arm64): built again": 1, "the index of these images has the same digest": 1})
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
		r := require.Value(recipe.Decode([]byte(printed)))(t)
		body := require.Value(documents.Provenance(r, documents.Run{}))(t)
		u.Cache = t.TempDir()
		for _, file := range []string{u.file(t, "recipe.json", printed), u.file(t, "provenance.json", string(body))} {
			assert.Equal(t, want, u.Run(t, "--recipe", file, "--output", "oci:"+file+"-image").Digest(t))
		}
		assert.Equal(t, printed, u.Run(t, "--recipe", u.Path("recipe.json"), "--dry-run").Stdout)
		u.Run(t, append(args, "--recipe", u.Path("recipe.json"))...).Want(t, 2, "--recipe says what is built")
		r.Base.Name = "" // as of a base that was a file
		local := u.file(t, "local.json", string(require.Value(json.Marshal(r.Public()))(t)))
		u.Run(t, "--recipe", local, "--output", "oci:"+u.Path("x")).Want(t, 2, "give --base, with the image that has the digest "+r.Base.Digest)
		u.Run(t, "--recipe", local, "--dry-run").Want(t, 2, "give --base")
		u.Run(t, "--recipe", local, "--base", u.Base(system), "--output", "oci:"+u.Path("local")).Want(t, 0)
		u.Run(t, "--recipe", u.Path("matrix.yaml"), "--output", "oci:"+u.Path("x")).Want(t, 2, "--recipe", "matrix.yaml")
	}
}

// TestVEXOfBulletins: the statements about the driver of an image are a document that is accepted for the image. Scanners
// find the image by a package URL of which they know every part; an image without a repository has a name too.
func TestVEXOfBulletins(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	key, _ := u.imageKey(t, "ed")
	image := u.Host + "/gpu/driver:" + newDriver + "-debian12"
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--push", "--repository", u.Host+"/gpu/driver").Want(t, 0)
	made := u.on("2026-11-29").Run(t, "sbom", image, "-o", "openvex").Want(t, 0).Stdout
	assert.Contains(t, made, `"action_statement": "give the nodes an image of driver 535.309.01 or newer"`)
	assert.Contains(t, made, `"action_statement": "give the nodes a driver of a newer branch: no fix will come for R535"`)
	assert.Equal(t, 100, strings.Count(made, `"status": "affected"`))
	assert.Equal(t, 100, len(regexp.MustCompile(`"@id": "pkg:oci/driver@sha256:[0-9a-f]{64}\?arch=amd64"`).FindAllString(made, -1)))
	assert.Equal(t, made, u.on("2026-11-29").Run(t, "sbom", image, "-o", "openvex").Want(t, 0).Stdout)
	u.Run(t, "sign-image", image, "--image-key", key, "--vex", u.file(t, "driver.openvex.json", made)).Want(t, 0)
	layout := "oci:" + u.Path("image")
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--output", layout).Want(t, 0)
	assert.Contains(t, u.Run(t, "sbom", layout, "-o", "openvex").Want(t, 0).Stdout, `"pkg:oci/nvidia-driver@sha256:`)
}
