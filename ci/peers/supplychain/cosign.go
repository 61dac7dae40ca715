package supplychain

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// Cosign is the program of sigstore's project.
type Cosign struct {
	program string
	verify  []string // flags for every verification
	sign    []string
}

// Cosign3 is cosign 3. Without network and with a key it needs a flag for signing besides the one
// for the log.
func Cosign3(t testing.TB) Cosign {
	t.Helper()
	return Cosign{program: Program(t, "cosign3"), verify: []string{"--insecure-ignore-tlog"},
		sign: []string{"--yes", "--tlog-upload=false", "--use-signing-config=false"}}
}

// Cosign2 is cosign 2. It wants a root of trust for bundles, also with a key: an empty one does.
func Cosign2(t testing.TB) Cosign {
	t.Helper()
	root := testfile.Write(
		t,
		filepath.Join(t.TempDir(), "trusted-root.json"),
		`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`,
	)
	return Cosign{
		program: Program(t, "cosign2"),
		verify:  []string{"--insecure-ignore-tlog", "--trusted-root", root},
		sign:    []string{"--yes", "--tlog-upload=false"},
	}
}

// Keys makes a pair of keys as cosign does: ECDSA P-256, in sigstore's PEM, with an empty
// passphrase.
func (c Cosign) Keys(t testing.TB) Keys {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "cosign")
	_, err := run(t, c.program, "generate-key-pair", "--output-key-prefix", prefix)
	require.NoError(t, err)
	return Keys{Private: prefix + ".key", Public: prefix + ".pub"}
}

// Attest attaches a predicate to an image, HOST/PATH@DIGEST, as a referrer: a file of JSON, and
// cosign's name of its type or a URI.
func (c Cosign) Attest(t testing.TB, private, image, kind, predicate string) error {
	t.Helper()
	_, err := run(
		t,
		c.program,
		join([]string{"attest", "--key", private, "--type", kind, "--predicate", predicate,
			newBundle}, c.sign, image)...)
	return err
}

// Verify looks for a signature of an image by a key: a bundle among its referrers, else the tag
// .sig.
func (c Cosign) Verify(t testing.TB, public, image string) error {
	t.Helper()
	_, err := run(t, c.program, join([]string{"verify", "--key", public}, c.verify, image)...)
	return err
}

// VerifyAttestation looks for an attestation by a key. kind is cosign's name of a predicate type or
// a URI. It returns the DSSE envelopes, as JSON, a line each.
func (c Cosign) VerifyAttestation(t testing.TB, public, kind, image string) (string, error) {
	t.Helper()
	return run(
		t,
		c.program,
		join([]string{"verify-attestation", "--key", public, "--type", kind}, c.verify, image)...)
}

// VerifyBlob looks at a file and a bundle of sigstore that has a statement about it.
func (c Cosign) VerifyBlob(t testing.TB, public, kind, bundle, blob string) error {
	t.Helper()
	_, err := run(
		t,
		c.program,
		join(
			[]string{"verify-blob-attestation", "--key", public, "--type", kind, "--bundle", bundle,
				newBundle},
			c.verify,
			blob,
		)...)
	return err
}

const newBundle = "--new-bundle-format=true"

func join(command, flags []string, argument string) []string {
	return append(append(command, flags...), argument)
}
