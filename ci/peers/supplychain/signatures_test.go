package supplychain

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/kmod/sign/keyfile"
)

// TestSignatures: containers/image accepts what the project signed, with each kind of key, also in a mirror.
// It refuses signatures that were changed, or that are of another image.
func TestSignatures(t *testing.T) {
	judged(t)
	keys := signingKeys(t)
	p := newProject(t)
	host := RegistryWithReferrers(t)
	for kind, key := range keys {
		repository := host + "/" + kind + "/driver"
		p.attach(t, repository, sign(t, key, signature.Legacy, repository, p.push(t, repository)))
		assert.NoErrorf(t, Policy{Key: key.public}.Accepts(t, repository+":1"), "%s", kind)
	}
	Registries(t, func(t *testing.T, host string) {
		key := keys["p256"]
		policy, repository, mirror := Policy{Key: key.public}, host+"/gpu/driver", host+"/mirror/gpu/driver:1"
		subjects := p.push(t, repository)
		refuses(t, policy, repository+":1") // it is unsigned
		p.attach(t, repository, sign(t, key, signature.Legacy, repository, subjects))
		assert.NoError(t, policy.Accepts(t, repository+":1"))
		refuses(t, Policy{Key: keys["p384"].public}, repository+":1")
		_, _, err := p.Copy(t.Context(), repository+":1", mirror)
		require.NoError(t, err)
		refuses(t, policy, mirror)
		assert.NoErrorf(t, Policy{key.public, &Identity{Type: "remapIdentity", Prefix: host + "/mirror", SignedPrefix: host}}.Accepts(t, mirror), "a mirror")

		repository = host + "/changed/driver"
		subjects = p.push(t, repository)
		p.attach(t, repository, changed(t, sign(t, key, signature.Legacy, repository, subjects)))
		refuses(t, policy, repository+":1")
		repository = host + "/moved/driver"
		p.attach(t, repository, moved(t, sign(t, key, signature.Legacy, repository, subjects), subjects, p.push(t, repository)))
		refuses(t, policy, repository+":1")
	})
}

// TestCosignSignatures: both versions of cosign accept what the project signed and attested, in each form and
// with each kind of key, on the index and on an image. They refuse another key.
func TestCosignSignatures(t *testing.T) {
	judged(t)
	cosigns, keys, types := both(t), signingKeys(t), predicates(t)
	p := newProject(t)
	Registries(t, func(t *testing.T, host string) {
		for kind, key := range keys {
			other, forms := keys["p256"], []signature.Format{signature.Legacy, signature.Bundle}
			if kind == "p256" {
				other, forms = keys["p384"], append(forms, signature.Both) // once: it is the same content
			}
			for _, form := range forms {
				repository := host + "/" + kind + "/" + string(form)
				subjects := p.push(t, repository)
				p.attach(t, repository, sign(t, key, form, repository, subjects, slices.Collect(maps.Values(types))...))
				image := repository + "@" + subjects[0].Descriptor.Digest.String()
				for name, c := range cosigns {
					what := name + ": " + repository
					assert.NoErrorf(t, c.Verify(t, key.public, repository+":1"), "%s", what)
					assert.NoErrorf(t, c.Verify(t, key.public, image), "%s", what)
					assert.Errorf(t, c.Verify(t, other.public, image), "%s: another key", what)
					for kind := range types {
						assert.NoErrorf(t, assert.Err(c.VerifyAttestation(t, key.public, kind, image)), "%s: %s", what, kind)
					}
				}
			}
		}
	})
}

// TestCosignTampered: both versions of cosign refuse signatures and attestations that were changed, or that
// are of another image.
func TestCosignTampered(t *testing.T) {
	judged(t)
	cosigns, key := both(t), signingKeys(t)["p256"]
	documents := slices.Collect(maps.Values(predicates(t)))
	p := newProject(t)
	Registries(t, func(t *testing.T, host string) {
		for _, form := range []signature.Format{signature.Legacy, signature.Bundle} {
			one, two := host+"/changed/"+string(form), host+"/moved/"+string(form)
			subjects := p.push(t, one)
			all := sign(t, key, form, one, subjects, documents...)
			p.attach(t, one, changed(t, all))
			p.attach(t, two, moved(t, all, subjects, p.push(t, two)))
			for name, c := range cosigns {
				for _, repository := range []string{one, two} {
					assert.Errorf(t, c.Verify(t, key.public, repository+":1"), "%s: %s", name, repository)
					assert.Errorf(t, assert.Err(c.VerifyAttestation(t, key.public, "spdxjson", repository+":1")), "%s: %s", name, repository)
				}
			}
		}
	})
}

// TestCosignHidden: where another key's attestation hides a good .sig from cosign, the project's verification
// says so. A bundle by the good key makes it visible again.
func TestCosignHidden(t *testing.T) {
	judged(t)
	cosigns := both(t)
	theirs, ours := cosigns["cosign3"].Keys(t), signingKeys(t)["p256"]
	public := require.Value(keyfile.LoadPublic(ours.public, time.Now()))(t)
	predicate := filepath.Join(t.TempDir(), "predicate.json")
	testfile.Write(t, predicate, `{"answer": 42}`)
	p := newProject(t)
	Registries(t, func(t *testing.T, host string) {
		repository := host + "/gpu/driver"
		subject := p.push(t, repository)[:1]
		image := repository + "@" + subject[0].Descriptor.Digest.String()
		p.attach(t, repository, sign(t, ours, signature.Legacy, repository, subject))
		require.NoError(t, cosigns["cosign3"].Attest(t, theirs.Private, image, "https://example.com/answer", predicate))
		hidden := func() bool {
			subject[0].Attachments = require.Value(p.Attachments(t.Context(), image))(t)
			return require.Value(signature.Verify(subject, public))(t)[0].Hidden
		}
		assert.Equalf(t, true, hidden(), "the project says that cosign will not find the signature")
		for name, c := range cosigns {
			assert.Errorf(t, c.Verify(t, ours.public, image), "%s: a signature behind another key's bundle", name)
		}
		p.attach(t, repository, sign(t, ours, signature.Bundle, repository, subject))
		assert.Equalf(t, false, hidden(), "the project says that the signature is still hidden")
		for name, c := range cosigns {
			assert.NoErrorf(t, c.Verify(t, ours.public, image), "%s", name)
		}
	})
}

// both are the versions of cosign.
func both(t *testing.T) map[string]Cosign {
	t.Helper()
	return map[string]Cosign{"cosign3": Cosign3(t), "cosign2": Cosign2(t)}
}

func refuses(t *testing.T, p Policy, image string) {
	t.Helper()
	if err := p.Accepts(t, image); ExitCode(err) != PolicyRefused {
		t.Errorf("%s: exit code %d, %v; want %d", image, ExitCode(err), err, PolicyRefused)
	}
}
