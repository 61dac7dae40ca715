package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// TestLocalBase: a base of this machine, as fetch names it, comes along in a bundle, and a build at the site reads it
// there with the same digest.
func TestLocalBase(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := "--os debian12 --arch amd64 --driver " + newDriver + " --matrix " + u.Path("matrix.yaml")
	c := require.Value(registry.New(registry.Options{Store: require.Value(fetch.OpenStore(t.TempDir()))(t)}))(t)
	require.NoError(t, oci.WriteLayout(t.Context(), u.Path("my base"), "12", require.Value(c.Open(t.Context(), u.Base("debian12"), registry.OpenOptions{}))(t).Artifact))
	base, file := "oci:"+u.Path("my base")+":12", u.Path("fleet.tar")
	u.Run(t, append(strings.Fields("lock "+target), "--base", base)...).Want(t, 0)
	build := append(strings.Fields(target), "--lock", u.Path("matrix.lock"), "--base")
	first := u.Run(t, append(build, base, "--output", "oci:"+u.Path("one"))...).Want(t, 0)
	fetched := u.Run(t, append(strings.Fields("fetch "+target), "--base", base)...).Want(t, 0)
	require.NoError(t, os.WriteFile(u.Path("fetched"), []byte(fetched.Stdout), 0o600))
	create := []string{"bundle", "create", "--output", file, "--repository", u.Host + "/gpu/driver", "oci:" + u.Path("one") + ":" + newDriver + "-debian12"}
	u.Run(t, append(create, "--inputs", u.Path("fetched"))...).Want(t, 0)
	u.Cache = t.TempDir()
	require.NoError(t, errors.Join(os.Mkdir(u.Path("site"), 0o700), os.RemoveAll(u.Path("my base"))))
	u.Run(t, "bundle", "import", file, "--to", u.Host+"/site/driver", "--allow-unsigned", "--inputs", u.Path("site")).Want(t, 0)
	u.Fault(refuse(500, ""))
	site := "oci-archive:" + file + ":" + u.Host + "/gpu/driver/base:12"
	second := u.Run(t, append(build, site, "--offline", "--output", "oci:"+u.Path("two"))...).Want(t, 0)
	assert.Equal(t, first.Digest(t), second.Digest(t))
	require.NoError(t, os.WriteFile(u.Path("bad"), []byte("what is this\n"), 0o600))
	u.Run(t, append(create, "--inputs", u.Path("bad"))...).Want(t, 2, "--inputs", "is no line that driver-build fetch prints")
	require.NoError(t, os.WriteFile(u.Path("site/bad"), []byte("another\n"), 0o600))
	u.Run(t, append(create, "--file", u.Path("bad"), "--file", u.Path("site/bad"))...).Want(t, 2, "two different files have the name bad")
	r := u.Run(t, "bundle", "create", "--output", file, "--repository", u.Host+"/gpu/driver", "oci:"+u.Path("one"))
	r.Want(t, 2, "give the tag that the image gets")
}
