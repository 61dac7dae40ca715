package supplychain

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/commandtest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/cmd/driver-build/bundlecmd"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/signature"
)

// TestAirGap goes from a registry to one of the other kind with the commands that a site calls.
// There, containers/image accepts the images with the policy that the import wrote, and oras finds
// their attestations. Then the site signs with a key of its own.
func TestAirGap(t *testing.T) {
	judged(t)
	keys := signingKeys(t)
	key, other := keys["p256"], keys["p384"]
	hosts := []string{RegistryWithReferrers(t), RegistryWithoutReferrers(t)}
	p := newProject(t)
	for n, host := range hosts {
		from, to, file := host+"/gpu/driver", hosts[1-n]+"/mirror/gpu/driver", filepath.Join(t.TempDir(), "fleet.tar")
		p.attach(t, from, sign(t, key, signature.Both, from, p.push(t, from), slices.Collect(maps.Values(predicates(t)))...))
		command(t, "create", "--output", file, "--repository", from, from+":1", "--image-key", key.private).Want(t, 0)
		command(t, "verify", file, "--key", key.public).Want(t, 0)
		command(t, "import", file, "--to", to, "--key", other.public).Want(t, 5)
		assert.Errorf(t, assert.Err(p.Attachments(t.Context(), to+":1")), "an import with another key")
		policy := filepath.Join(t.TempDir(), "policy")
		command(t, "import", file, "--to", to, "--key", key.public, "--policy", policy, "--policy-key", key.public).Want(t, 0)
		assert.NoError(t, printedPolicyAccepts(t, string(require.Value(os.ReadFile(policy))(t)), to+":1"))
		command(t, "import", file, "--to", to, "--key", key.public, "--image-key", other.private, "--policy", policy, "--policy-key", other.public).Want(t, 0)
		assert.NoErrorf(t, printedPolicyAccepts(t, string(require.Value(os.ReadFile(policy))(t)), to+":1"), "signed with the site's key")
		if found, err := OrasReferrers(t, to+":1"); err != nil || len(found) != 1+len(predicates(t)) {
			t.Errorf("%s has referrers %+v, %v; want %d", to, found, err, 1+len(predicates(t)))
		}
	}
}

// command calls driver-build bundle.
func command(t *testing.T, args ...string) commandtest.Result {
	t.Helper()
	root := func(a *session.App) *cobra.Command {
		cmd := &cobra.Command{Use: "driver-build"}
		a.Root(cmd)
		cmd.AddCommand(bundlecmd.Commands(a)...)
		return cmd
	}
	return commandtest.Call(t.Context(), t, root, nil, append(append([]string{"bundle"}, args...), "--cache", t.TempDir(), "--progress", "quiet")...)
}

// printedPolicyAccepts asks with the text that an import prints: policy.json, and registries.d in comments.
func printedPolicyAccepts(t *testing.T, text, image string) error {
	t.Helper()
	_, policy, _ := strings.Cut(text, "\n{\n")
	policy, _, _ = strings.Cut(policy, "\n}\n")
	_, registries, _ := strings.Cut(text, "driver.yaml:\n")
	return PolicyAccepts(t, "{"+policy+"}", strings.ReplaceAll(registries, "# ", ""), image)
}
