package main

import (
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// TestRebuildBehindTheGap carries what an image is made of into a site whose cache is empty and whose servers
// answer nothing, and builds the same digest there.
func TestRebuildBehindTheGap(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := "--os debian12 --driver " + newDriver
	u.tool(t, "lock "+target).Want(t, 0)
	first := u.Run(t, append(strings.Fields(target), "--output", "oci:"+u.Path("one"))...)
	first.Want(t, 0)
	fetched := u.tool(t, "fetch "+target)
	fetched.Want(t, 0)
	require.NoError(t, os.WriteFile(u.Path("fetched"), []byte(fetched.Stdout), 0o600))
	file, tag := u.Path("fleet.tar"), newDriver+"-debian12"
	u.Run(t, "bundle", "create", "--output", file, "--repository", u.Host+"/gpu/driver", "oci:"+u.Path("one")+":"+tag,
		"--inputs", u.Path("fetched"), "--file", u.Path("matrix.lock"), "--file", u.Path("matrix.yaml")).Want(t, 0)

	u.Cache = t.TempDir()
	require.NoError(t, os.Mkdir(u.Path("site"), 0o700))
	u.Run(t, "bundle", "import", file, "--to", u.Host+"/site/driver", "--allow-unsigned", "--inputs", u.Path("site")).Want(t, 0)
	u.Fault(refuse(500, ""))
	second := u.Run(t, append(strings.Fields(target), "--offline", "--matrix", u.Path("site/matrix.yaml"), "--lock", u.Path("site/matrix.lock"),
		"--output", "oci:"+u.Path("two"))...)
	second.Want(t, 0)
	assert.Equalf(t, second.Digest(t), first.Digest(t), "the digests differ")
}
