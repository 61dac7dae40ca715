package supplychain

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/bundlecmd"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/signature"
)

// TestAirGap goes from a registry to one of the other kind with the commands that a site calls.
// There, containers/image accepts the images with the policy that the import wrote, and regctl finds
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
		policy := t.TempDir()
		command(t, "import", file, "--to", to, "--key", key.public, "--policy", policy).Want(t, 0)
		p.judgesTags(t, policy, to)
		command(t, "import", file, "--to", to, "--key", key.public, "--image-key", other.private, "--policy", policy).Want(t, 0)
		p.judgesTags(t, policy, to)
		assert.Equalf(t, 1+len(predicates(t)), len(RegctlReferrers(t, to+":1")), "referrers of %s", to)
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

// judgesTags says that the policy that an import wrote accepts its image by tag and by digest, refuses the image
// under a tag that it was not signed for, and accepts what is elsewhere.
func (p project) judgesTags(t *testing.T, dir, to string) {
	t.Helper()
	read := func(name string) string { return string(require.Value(os.ReadFile(filepath.Join(dir, name)))(t)) }
	accepts := func(image string) error { return PolicyAccepts(t, read("policy.json"), read("registries.yaml"), image) }
	opened := require.Value(p.Open(t.Context(), to+":1", registry.OpenOptions{}))(t)
	top := require.Value(oci.Collect(opened.Artifact))(t).Top()
	elsewhere := strings.Replace(to, "/mirror/", "/elsewhere/", 1)
	_, _, err := p.Push(t.Context(), to+":2", opened.Artifact)
	require.NoError(t, err)
	_, _, err = p.Copy(t.Context(), to+":1", elsewhere+":1")
	require.NoError(t, err)
	for _, image := range []string{to + ":1", to + "@" + top.Desc.Digest.String(), elsewhere + ":1"} {
		assert.NoErrorf(t, accepts(image), "%s", image)
	}
	assert.Equalf(t, PolicyRefused, ExitCode(accepts(to+":2")), "a swapped tag")
}
