package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/node/headers"
)

// TestHeadersBehindTheGap carries kernel headers into a site: a node finds them in the mirror that the import
// wrote, by the repository's own signatures, and nowhere else.
func TestHeadersBehindTheGap(t *testing.T) {
	t.Parallel()
	deb, rpm := newUser(t), newRPMUser(t, "rocky9")
	rpm.file(t, "rpm.yaml", rpm.world.Matrix())
	for _, c := range []struct {
		*user
		matrix, system, driver, kernel, other string
	}{
		{deb, "matrix.yaml", "debian12", newDriver, imagetest.Kernel, imagetest.OldKernel},
		{rpm.user, "rpm.yaml", "rocky9", newDriver, imagetest.RPMKernel, imagetest.RPMOldKernel},
	} {
		ref := "oci:" + c.Path("one") + ":" + c.driver + "-" + c.system
		c.Run(t, "--os", c.system, "--driver", c.driver, "--matrix", c.Path(c.matrix), "--output", "oci:"+c.Path("one")).Want(t, 0)
		file, mirror := c.Path("fleet.tar"), t.TempDir()
		create := []string{"bundle", "create", "--output", file, "--repository", c.Host + "/gpu/driver", ref, "--headers"}
		c.Run(t, append(create, "6.99.0-1-amd64")...).Want(t, 2, "6.99.0-1-amd64", "driver-build kernels")
		c.Run(t, append(create, c.kernel)...).Want(t, 0)
		assert.Contains(t, c.Run(t, "bundle", "list", file).Stdout, "headers")
		for range 2 {
			c.Run(t, "bundle", "import", file, "--to", c.Host+"/site/driver", "--allow-unsigned", "--headers", mirror).Want(t, 0)
		}
		c.Fault(refuse(500, ""))
		root := nodeRoot(t, ref, strings.NewReplacer("http://"+c.Host, "file://"+mirror+"/"+strings.ReplaceAll(c.Host, ":", "-")))
		find := func(release string) error {
			return assert.Err(headers.Fetch(t.Context(), headers.Options{
				Root: root, Into: filepath.Join(t.TempDir(), "headers"), Release: release, Arch: "amd64", Store: t.TempDir(), Getenv: func(string) string { return "" },
			}))
		}
		require.NoErrorf(t, find(c.kernel), "%s", c.system)
		assert.Errorf(t, find(c.other), "%s: a kernel that the mirror does not have", c.system)
	}
}

// nodeRoot is the root of a container of an image, as far as it is text in /etc, or says what is installed.
func nodeRoot(t *testing.T, ref string, sources *strings.Replacer) string {
	t.Helper()
	dir := t.TempDir()
	local, _ := oci.ParseLocal(ref)
	img, _, err := local.Image(t.Context(), "amd64")
	require.NoError(t, err)
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		require.NoError(t, err)
		name := strings.TrimPrefix(h.Name, "/")
		to := filepath.Join(dir, name)
		switch {
		case h.Typeflag == tar.TypeDir:
			require.NoError(t, os.MkdirAll(to, 0o755))
		case h.Typeflag == tar.TypeReg && (strings.HasPrefix(name, "etc/") || strings.HasSuffix(name, "os-release") || strings.HasPrefix(name, "var/lib/dpkg/") ||
			strings.HasPrefix(name, "usr/share/keyrings/")):
			testfile.Write(t, to, sources.Replace(string(require.Value(io.ReadAll(r))(t))))
		case h.Typeflag == tar.TypeSymlink:
			testfile.Write(t, to, "-> "+h.Linkname)
		}
	}
}

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
	create := []string{"bundle", "create", "--output", file, "--repository", u.Host + "/gpu/driver", "oci:" + u.Path("one") + ":" + newDriver + "-debian12"}
	u.Run(t, append(create, "--inputs", u.file(t, "fetched", fetched.Stdout))...).Want(t, 0)
	u.Cache = t.TempDir()
	require.NoError(t, errors.Join(os.Mkdir(u.Path("site"), 0o700), os.RemoveAll(u.Path("my base"))))
	u.Run(t, "bundle", "import", file, "--to", u.Host+"/site/driver", "--allow-unsigned", "--inputs", u.Path("site")).Want(t, 0)
	u.Fault(refuse(500, ""))
	site := "oci-archive:" + file + ":" + u.Host + "/gpu/driver/base:12"
	second := u.Run(t, append(build, site, "--offline", "--output", "oci:"+u.Path("two"))...).Want(t, 0)
	assert.Equal(t, first.Digest(t), second.Digest(t))
	bad := u.file(t, "bad", "what is this\n")
	u.Run(t, append(create, "--inputs", bad)...).Want(t, 2, "--inputs", "is no line that driver-build fetch prints")
	u.Run(t, append(create, "--file", bad, "--file", u.file(t, "site/bad", "another\n"))...).Want(t, 2, "two different files have the name bad")
	u.Run(t, "bundle", "create", "--output", file, "--repository", u.Host+"/gpu/driver", "oci:"+u.Path("one")).Want(t, 2, "give the tag that the image gets")
}
