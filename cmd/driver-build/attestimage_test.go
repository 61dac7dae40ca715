package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/cmd/driver-build/flags"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// wantSigned checks how many images of a reference have a good signature of the key, and how many lack one.
func (u *user) wantSigned(t *testing.T, good, bad int, ref, key string) {
	t.Helper()
	r := u.Run(t, "verify", ref, "--key", key)
	counts(t, r.Stdout, map[string]int{"note: image-signature: ": good, "error: image-signature: ": bad})
	if bad > 0 {
		r.Want(t, session.ExitMismatch)
	}
}

// TestSignImage: keys of each kind sign the index and its images, and other keys are not taken for them.
func TestSignImage(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	repository := u.Host + "/gpu/driver"
	u.Run(t, "push", u.modulesImage(t, "amd64", "arm64"), repository+":1").Want(t, 0)
	ec := require.Value(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	seal := func(der []byte) (string, []byte) {
		return "ENCRYPTED SIGSTORE PRIVATE KEY", require.Value(encrypted.Encrypt(der, []byte("correct")))(t)
	}
	keys := map[string]string{}
	for name, key := range map[string]crypto.Signer{"rsa": require.Value(rsa.GenerateKey(rand.Reader, 2048))(t), "ec": ec} {
		private, public := u.keyPair(t, name, key, plain)
		keys[private] = public
	}
	private, public := u.imageKey(t, "ed")
	keys[private] = public
	sealed, sealedPublic := u.keyPair(t, "cosign", require.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), seal)
	keys[sealed] = sealedPublic
	p12, cert := commandtest.SignKey(t)
	keys[p12] = cert
	u.wantSigned(t, 0, 3, repository+":1", public)
	u.Env[flags.PassphraseVariable] = "correct"
	r := u.Run(t, "sign-modules", u.modulesImage(t, "amd64"), "--module-key", p12, "--image-key", private, "--push", "--repository", u.Host+"/own")
	r.Want(t, 0) // under all tags that the image was built with
	counts(t, r.Stdout, map[string]int{"\n": 2, "/own:535-debian12@": 1})
	u.wantSigned(t, 1, 0, u.Host+"/own:535-debian12", public)
	assert.Contains(t, u.Run(t, "verify", u.Host+"/own:535-debian12", "--key", public).Stdout, u.Host+"/own:535-debian12")
	u.Run(t, "sign-image", repository+":1", "--image-key", sealed).Want(t, session.ExitUsage, "the passphrase is missing or wrong")
	u.Env[flags.ImagePassphraseVariable] = "wrong"
	u.Run(t, "sign-image", repository+":1", "--image-key", sealed).Want(t, session.ExitUsage, "the passphrase is missing or wrong")
	u.Env[flags.ImagePassphraseVariable] = "correct"
	var done []string
	for private, public := range keys {
		u.wantSigned(t, 0, 3, repository+":1", public)
		r = u.Run(t, "sign-image", repository+":1", "--image-key", private).Want(t, 0)
		assert.Contains(t, r.Stdout, repository+":1@sha256:")
		u.Run(t, "sign-image", repository+":1", "--image-key", private).Want(t, 0, "it has all of it already")
		for _, public := range append(done, public) {
			u.wantSigned(t, 3, 0, repository+":1", public)
		}
		done = append(done, public)
	}
	const tag = "/v2/gpu/driver/manifests/1"
	before := u.Requests(tag)
	r = u.Run(t, "verify", repository+":1", "--key", public)
	assert.Equal(t, before+1, u.Requests(tag)) // it could move: what was signed is what is examined
	assert.Contains(t, r.Stdout, " as "+repository+", "+repository+":1")
	u.Run(t, "verify", repository+":1", "--key", private).Want(t, session.ExitUsage, "openssl pkey")
	u.Run(t, "sign-image", repository+":1", "--image-key", public).Want(t, session.ExitUsage, "give the private key")
}

// TestVerifyNames: a tag that was moved to another signed image is an error, in each format; so is an attestation
// that is required and is missing or by another key.
func TestVerifyNames(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	key, public := u.imageKey(t, "ed")
	foreign, _ := u.imageKey(t, "foreign")
	u.file(t, "spdx", `{"spdxVersion":"SPDX-2.3"}`)
	for _, format := range []string{"legacy", "both", "bundle"} {
		repository := u.Host + "/" + format
		errorsOf := func(want int, args ...string) {
			t.Helper()
			r := u.Run(t, append([]string{"verify", "--key", public}, args...)...)
			got := strings.Count(r.Stdout, "error: image-signature: ") + strings.Count(r.Stdout, "error: attestation: ")
			assert.Equalf(t, want, got, "errors of verify %s", args)
			if want > 0 {
				r.Want(t, session.ExitMismatch)
			}
		}
		for tag, arches := range map[string][]string{"470": {"amd64"}, "535": {"arm64"}} {
			u.Run(t, "push", u.modulesImage(t, arches...), repository+":"+tag).Want(t, 0)
			u.Run(t, "sign-image", repository+":"+tag, "--image-key", key, "--signature-format", format, "--sbom", u.Path("spdx")).Want(t, 0)
		}
		nameless := 0 // bundles state no name, so nothing says which tag is right
		if format == "bundle" {
			nameless = 1
		}
		errorsOf(nameless, repository+":470")
		pinned := repository + "@" + strings.SplitAfter(u.Run(t, "push", repository+":470", repository+":535").Stdout, "@")[1]
		errorsOf(1, repository+":535")
		errorsOf(0, strings.TrimSpace(pinned))
		errorsOf(nameless, repository+":535", "--identity", repository)
		errorsOf(nameless, repository+":535", "--identity", repository+":470")
		errorsOf(1, repository+":470", "--identity", repository+":535")
		u.Run(t, "push", repository+":470", u.Host+"/mirror/"+format+":470").Want(t, 0)
		errorsOf(nameless, u.Host+"/mirror/"+format+":470")

		u.Run(t, "sign-image", repository+":470", "--image-key", foreign, "--predicate", u.Path("spdx"), "--type", "https://cyclonedx.org/bom").Want(t, 0)
		errorsOf(0, strings.TrimSpace(pinned), "--require", "sbom,spdx,https://spdx.dev/Document")
		for _, kind := range []string{"cyclonedx", "provenance", "https://spdx.dev/Doc"} {
			errorsOf(1, strings.TrimSpace(pinned), "--require", kind)
		}
	}
	for args, want := range map[string]string{
		"--identity a.example/b": "give --key", "--require vex": "give --key", "--require slsa --key " + public: "--require slsa: give cyclonedx, provenance",
		"--identity a.example/b@sha256:" + strings.Repeat("0", 64) + " --key " + public: "leave it out", "--identity a:b:c --key " + public: "--identity",
	} {
		u.Run(t, append([]string{"verify", u.Host + "/legacy:470"}, strings.Fields(args)...)...).Want(t, session.ExitUsage, want)
	}
}

// TestAttest: documents become attestations and referrers of the index and all images, or of the named ones.
func TestAttest(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	key, public := u.imageKey(t, "ed")
	repository := u.Host + "/gpu/driver"
	layout := u.modulesImage(t, "amd64", "arm64")
	pushed := u.Run(t, "push", layout, repository+":1").Want(t, 0)
	vex := `{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://x.example/1","author":"Site","timestamp":"2026-01-02T03:04:05Z","version":1,"statements":[` +
		`{"vulnerability":{"name":"CVE-2026-1"},"products":[{"@id":"pkg:oci/driver@sha256:DIGEST"}],"status":"not_affected","justification":"component_not_present"}]}`
	for name, text := range map[string]string{
		"spdx": `{"spdxVersion":"SPDX-2.3"}`, "cdx": `{"bomFormat":"CycloneDX"}`, "vex": strings.ReplaceAll(vex, "DIGEST", pushed.Digest(t)), "foreign": strings.ReplaceAll(vex, "DIGEST", strings.Repeat("0", 64)), "other": `{"x":1}`, "none": `[]`,
	} {
		u.file(t, name, text)
	}
	for _, ref := range []string{repository + ":1", layout} {
		u.Run(t, "sign-image", ref, "--sbom", u.Path("spdx")).Want(t, 0) // without a key a referrer only
		args := []string{"sign-image", ref, "--repository", repository, "--image-key", key, "--sbom", u.Path("spdx"), "--vex", u.Path("vex"), "--signature-format", "both"}
		u.Run(t, args...).Want(t, 0)
		u.Run(t, args...).Want(t, 0, "it has all of it already")
		u.Run(t, "sign-image", ref, "--repository", repository, "--image-key", key, "--predicate", u.Path("other"), "--type", "https://x.example/y", "--arch", "arm64").Want(t, 0)
		counts(t, u.Run(t, "verify", ref, "--key", public).Stdout, map[string]int{
			"note: image-signature": 3, ": https://spdx.dev/Document by key": 6, ": https://openvex.dev/ns by key": 6, ": https://x.example/y by key": 1, "warning: ": 0,
		})
	}
	u.Run(t, "push", layout, u.Host+"/third/driver").Want(t, 0, "signatures, SBOMs")
	u.wantSigned(t, 3, 0, u.Host+"/third/driver:mine", public)
	for args, want := range map[string]string{
		"":                       "--image-key KEY or --image-signer",
		"--vex " + u.Path("vex"): "are signed",
		"--image-key " + key + " --sbom " + u.Path("other"):                       "no SBOM",
		"--image-key " + key + " --vex " + u.Path("other"):                        "not a valid OpenVEX document",
		"--image-key " + key + " --vex " + u.Path("foreign"):                      "--vex " + u.Path("foreign"),
		"--image-key " + key + " --predicate " + u.Path("none") + " --type x:y":   "an object",
		"--image-key " + key + " --predicate " + u.Path("other"):                  "belong together",
		"--image-key " + key + " --predicate " + u.Path("other") + " --type spdx": "no URI",
		"--image-key " + key + " --image-public-key " + public:                    "--image-signer",
		"--image-signer true --signature-format bundle":                           "--image-public-key",
		"--import d":                         "--image-public-key",
		"--image-key " + key + " --export e": "give one of",
	} {
		u.Run(t, append([]string{"sign-image", repository + ":1"}, strings.Fields(args)...)...).Want(t, session.ExitUsage, want)
	}
	u.Run(t, "sign-image", layout, "--image-key", key).Want(t, session.ExitUsage, "--repository")
	u.Run(t, "sign-image", "--image-key", key).Want(t, session.ExitUsage, "IMAGE")
}

// TestAttestElsewhere: a program signs, or somebody in another place.
func TestAttestElsewhere(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	_, public := u.keyPair(t, "ed", key, plain)
	_, other := u.imageKey(t, "other")
	archive := u.Path("image.tar")
	u.Run(t, "sign-modules", u.modulesImage(t, "amd64"), "--module-key", u.Path("ed.key"), "--output", "oci-archive:"+archive).Want(t, session.ExitUsage)
	p12, cert := commandtest.SignKey(t)
	u.Env[flags.PassphraseVariable], u.Env[flags.ImagePassphraseVariable] = "correct", "correct"
	u.Run(t, "sign-modules", u.modulesImage(t, "amd64"), "--module-key", p12, "--image-key", p12, "--repository", "h.example/a", "--output", "oci-archive:"+archive).Want(t, 0)
	ref, dir := "oci-archive:"+archive, u.Path("request")
	u.wantSigned(t, 1, 0, ref, cert)
	u.Run(t, "sign-image", ref, "--repository", "h.example/a", "--export", dir).Want(t, 0, "2 messages to sign")
	files := require.Value(filepath.Glob(dir + "/*.payload"))(t)
	imported := []string{"sign-image", ref, "--repository", "h.example/a", "--import", dir, "--image-public-key", public}
	u.Run(t, imported...).Want(t, session.ExitMismatch, ".sig", "it is not signed")
	for _, file := range files {
		testfile.Write(t, strings.TrimSuffix(file, "payload")+"sig", string(ed25519.Sign(key, []byte(testfile.Read(t, file)))))
	}
	u.Run(t, slices.Concat(imported[:len(imported)-1], []string{other})...).Want(t, session.ExitMismatch, "none of the given keys")
	copied := "oci-archive:" + u.file(t, "copy.tar", testfile.Read(t, archive))
	program := u.file(t, "kms", "#!/bin/sh\ncat \"$(dirname \"$0\")/request/$(sha256sum | cut -d' ' -f1).sig\"\n")
	u.Run(t, imported...).Want(t, 0)
	u.wantSigned(t, 1, 0, ref, public)
	bySigner := []string{"sign-image", copied, "--repository", "h.example/a", "--image-signer", program, "--image-public-key"}
	u.Run(t, append(bySigner, other)...).Want(t, session.ExitMismatch, "does not fit its public key")
	u.Run(t, append(bySigner, public)...).Want(t, 0)
	u.wantSigned(t, 1, 0, copied, public)
	u.wantSigned(t, 1, 0, ref, cert)
	fails := u.file(t, "fails", "#!/bin/sh\necho no such slot >&2\nexit 3\n")
	u.Run(t, "sign-image", ref, "--repository", "h.example/a", "--image-signer", fails).Want(t, session.ExitStep, "no such slot")
}

// TestPushKeepsTags: a layout with three tags is pushed as it is.
func TestPushKeepsTags(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p12, _ := commandtest.SignKey(t)
	u.Env[flags.PassphraseVariable] = "correct"
	layout, to := "oci:"+u.Path("dist"), u.Host+"/"
	sign := []string{"--module-key", p12, "--output", layout, "--tag"}
	u.Run(t, append([]string{"sign-modules", u.modulesImage(t, "amd64")}, append(sign, "a", "--tag", "b")...)...).Want(t, 0)
	u.Run(t, append([]string{"sign-modules", u.modulesImage(t, "arm64")}, append(sign, "c")...)...).Want(t, 0)
	digest := regexp.MustCompile(`@sha256:[0-9a-f]{64}\n`)
	for _, c := range []struct{ args, want string }{
		{layout + " " + to + "x --offline", "x:a x:b x:c "}, {layout + ":b " + to + "y", "y:b "}, {layout + ":c " + to + "x:a " + to + "y", "y:c y:a "},
		{layout + ":c " + to + "y --tag p --tag q", "y:p y:q "}, {layout + ":c " + to + "y:r --tag s", "y:r y:s "},
	} {
		r := u.Run(t, append([]string{"push"}, strings.Fields(c.args)...)...).Want(t, 0)
		assert.Equalf(t, c.want, digest.ReplaceAllString(strings.ReplaceAll(r.Stdout, to, ""), " "), "%s", c.args)
	}
	for args, want := range map[string]string{
		layout + " " + layout + ":c " + to + "y": "has the tag c too",
		layout + " " + layout + " " + to + "y:1": "without a tag",
		layout:                                   "REGISTRY/PATH",
		to + "x@sha256:" + strings.Repeat("0", 64) + " " + to + "y": "names no tag",
	} {
		u.Run(t, append([]string{"push"}, strings.Fields(args)...)...).Want(t, session.ExitUsage, want)
	}
}
