package supplychain

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// both are the versions of cosign.
func both(t *testing.T) map[string]Cosign {
	t.Helper()
	return map[string]Cosign{"cosign3": Cosign3(t), "cosign2": Cosign2(t)}
}

// TestCosign proves both versions with signatures and attestations by themselves and by each other.
func TestCosign(t *testing.T) {
	judged(t)
	cosigns := both(t)
	key, other := cosigns["cosign3"].Keys(t), cosigns["cosign2"].Keys(t)
	predicate := filepath.Join(t.TempDir(), "predicate.json")
	testfile.Write(t, predicate, `{"answer": 42}`)
	Registries(t, func(t *testing.T, host string) {
		unsigned := pushImage(t, host+"/unsigned/driver:1", "unsigned")
		for signerName, signer := range cosigns {
			for form, bundle := range map[string]bool{"tag": false, "bundle": true} {
				image := pushImage(t, host+"/"+signerName+"/"+form+":1", signerName, form)
				require.NoError(t, signer.Sign(t, key.Private, image, bundle))
				require.NoError(t, signer.Attest(t, key.Private, image, "https://example.com/answer", predicate, bundle))
				for judgeName, judge := range cosigns {
					what := judgeName + " on " + signerName + "/" + form
					assert.NoErrorf(t, judge.Verify(t, key.Public, image), "%s", what)
					assert.NoErrorf(t, assert.Err(judge.VerifyAttestation(t, key.Public, "https://example.com/answer", image)), "%s", what)
					assert.Errorf(t, assert.Err(judge.VerifyAttestation(t, key.Public, "https://example.com/question", image)), "%s: another type", what)
					want := CosignOtherKey
					if bundle {
						want = 1
					}
					if err := judge.Verify(t, other.Public, image); ExitCode(err) != want {
						t.Errorf("%s, another key: exit code %d, %v; want %d", what, ExitCode(err), err, want)
					}
					if err := judge.Verify(t, key.Public, unsigned); ExitCode(err) != CosignUnsigned {
						t.Errorf("%s, unsigned: exit code %d, %v; want %d", what, ExitCode(err), err, CosignUnsigned)
					}
				}
			}
		}
	})
}

// TestCosignBlob proves both versions with statements about files.
func TestCosignBlob(t *testing.T) {
	judged(t)
	cosigns := both(t)
	key, other := cosigns["cosign3"].Keys(t), cosigns["cosign2"].Keys(t)
	const kind = "https://example.com/answer"
	dir := t.TempDir()
	predicate, blob, changed := filepath.Join(dir, "predicate.json"), filepath.Join(dir, "blob"), filepath.Join(dir, "changed")
	testfile.Write(t, predicate, `{"answer": 42}`)
	testfile.Write(t, blob, "content")
	testfile.Write(t, changed, "Content")
	for signerName, signer := range cosigns {
		bundle := filepath.Join(dir, signerName)
		require.NoError(t, signer.AttestBlob(t, key.Private, kind, predicate, bundle, blob))
		for judgeName, judge := range cosigns {
			what := judgeName + " on " + signerName
			assert.NoErrorf(t, judge.VerifyBlob(t, key.Public, kind, bundle, blob), "%s", what)
			assert.Errorf(t, judge.VerifyBlob(t, other.Public, kind, bundle, blob), "%s: another key", what)
			assert.Errorf(t, judge.VerifyBlob(t, key.Public, kind, bundle, changed), "%s: another file", what)
			assert.Errorf(t, judge.VerifyBlob(t, key.Public, "https://example.com/question", bundle, blob), "%s: another type", what)
		}
	}
}
