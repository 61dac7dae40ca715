package supplychain

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// PolicyRefused is the exit code of Accepts where the policy refuses an image.
const PolicyRefused = 3

// Policy is what a site's policy.json says about all registries: images are signed with a key, in
// the tag .sig.
type Policy struct {
	Key      string    // file of the public key
	Identity *Identity // the name in the signature; nil is the default, matchRepoDigestOrExact
}

// Identity is signedIdentity of containers-policy.json(5).
type Identity struct {
	Type string `json:"type"` // matchRepository, remapIdentity ...
	// remapIdentity: what the site calls the images
	Prefix string `json:"prefix,omitempty"`
	// remapIdentity: what their signatures call them
	SignedPrefix string `json:"signedPrefix,omitempty"`
}

// Accepts asks containers/image, in the version of new releases of Podman and CRI-O, about an
// image, HOST/PATH:TAG or @DIGEST; of an index about the image for this machine. The error says why
// the policy refuses it; its ExitCode is PolicyRefused.
func (p Policy) Accepts(t testing.TB, image string) error {
	t.Helper()
	requirement := map[string]any{"type": "sigstoreSigned", "keyPath": p.Key}
	if p.Identity != nil {
		requirement["signedIdentity"] = p.Identity
	}
	policy := require.Value(json.Marshal(map[string]any{"default": []any{requirement}}))(t)
	return PolicyAccepts(
		t,
		string(policy),
		"default-docker:\n  use-sigstore-attachments: true\n",
		image,
	)
}

// PolicyAccepts is Accepts with the content of policy.json, and of a file in registries.d.
func PolicyAccepts(t testing.TB, policy, registries, image string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.json")
	dir := t.TempDir()
	testfile.Write(t, file, policy)
	testfile.Write(t, filepath.Join(dir, "site.yaml"), registries)
	_, err := run(t, Program(t, "containers-image"), "accept", file, dir, image)
	return err
}

// SkopeoCopy copies an image of an OCI archive, by its tag, into a folder. (Debian's Skopeo knows
// no signatures of sigstore.)
func SkopeoCopy(t testing.TB, archive, tag, dir string) error {
	t.Helper()
	_, err := run(
		t,
		"skopeo",
		"--insecure-policy",
		"copy",
		"oci-archive:"+archive+":"+tag,
		"dir:"+dir,
	)
	return err
}
