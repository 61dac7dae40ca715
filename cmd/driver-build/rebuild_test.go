package main

import (
	"os"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/recipe"
)

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
