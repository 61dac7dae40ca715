package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/debtest"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
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

// TestLocalBase: a base of this machine, as fetch names it, comes along in a bundle, and a build at the site reads it
// there with the same digest.
func TestLocalBase(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := "--os debian12 --arch amd64 --driver " + newDriver + " --matrix " + u.Path("matrix.yaml")
	c := require.Value(registry.New(registry.Options{Store: require.Value(fetch.OpenStore(t.TempDir()))(t)}))(t)
	require.NoError(t, oci.WriteLayout(t.Context(), u.Path("my base"), "12", require.Value(c.Open(t.Context(), u.Base("debian12"), registry.OpenOptions{}))(t).Artifact))
	base, file := "oci:"+u.Path("my base")+":12", u.Path("fleet.tar")
	lock := u.Run(t, append(strings.Fields("lock "+target), "--base", base)...)
	lock.Want(t, 0)
	build := append(strings.Fields(target), "--lock", u.Path("matrix.lock"), "--base")
	first := u.Run(t, append(build, base, "--output", "oci:"+u.Path("one"))...)
	first.Want(t, 0)
	fetched := u.Run(t, append(strings.Fields("fetch "+target), "--base", base)...)
	fetched.Want(t, 0)
	require.NoError(t, os.WriteFile(u.Path("fetched"), []byte(fetched.Stdout), 0o600))
	create := []string{"bundle", "create", "--output", file, "--repository", u.Host + "/gpu/driver", "oci:" + u.Path("one") + ":" + newDriver + "-debian12"}
	u.Run(t, append(create, "--inputs", u.Path("fetched"))...).Want(t, 0)
	u.Cache = t.TempDir()
	require.NoError(t, errors.Join(os.Mkdir(u.Path("site"), 0o700), os.RemoveAll(u.Path("my base"))))
	u.Run(t, "bundle", "import", file, "--to", u.Host+"/site/driver", "--allow-unsigned", "--inputs", u.Path("site")).Want(t, 0)
	u.Fault(refuse(500, ""))
	site := "oci-archive:" + file + ":" + u.Host + "/gpu/driver/base:12"
	second := u.Run(t, append(build, site, "--offline", "--output", "oci:"+u.Path("two"))...)
	second.Want(t, 0)
	assert.Equal(t, first.Digest(t), second.Digest(t))
	require.NoError(t, os.WriteFile(u.Path("bad"), []byte("what is this\n"), 0o600))
	u.Run(t, append(create, "--inputs", u.Path("bad"))...).Want(t, 2, "--inputs", "is no line that driver-build fetch prints")
	require.NoError(t, os.WriteFile(u.Path("site/bad"), []byte("another\n"), 0o600))
	u.Run(t, append(create, "--file", u.Path("bad"), "--file", u.Path("site/bad"))...).Want(t, 2, "two different files have the name bad")
	r := u.Run(t, "bundle", "create", "--output", file, "--repository", u.Host+"/gpu/driver", "oci:"+u.Path("one"))
	r.Want(t, 2, "give the tag that the image gets")
}

// componentArchive makes an archive of a component in the layout of NVIDIA's redist folder.
func componentArchive(t *testing.T, name string, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	files["LICENSE"] = "NVIDIA licence of " + name + "\n"
	for _, file := range slices.Sorted(maps.Keys(files)) {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(files[file])),
			Name: fmt.Sprintf("%s-linux-x86_64-%s-archive/%s", name, newDriver, file)}))
		require.Value(w.Write([]byte(files[file])))(t)
	}
	require.NoError(t, w.Close())
	return repotest.Compress(t, ".xz", b.Bytes())
}

// TestBundleComponents carries an image with components through a bundle. The site has the layer of the
// components, finds their archives among the inputs, and builds the same digest from them without a network.
func TestBundleComponents(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	a := u.Archives["debian12"]
	for _, name := range []string{"infiniband-diags", "zlib1g"} {
		a.Packages = append(a.Packages, debtest.Package{Control: "Package: " + name + "\nVersion: 1.0\nArchitecture: amd64\nDescription: for tests",
			Files: []repotest.File{{Name: "usr/share/" + name, Body: name}}})
	}
	a.Publish()
	program := func(name string) string {
		return string(imagetest.ELF{Arch: "amd64", Program: true, Needed: []string{"libc.so.6"}, Note: name}.Bytes())
	}
	library := string(imagetest.ELF{Arch: "amd64", Soname: "libnvidia-nscq.so.2", Needed: []string{"libc.so.6"}}.Bytes())
	u.withComponents(t, map[string][]byte{
		"imex": componentArchive(t, "imex", map[string]string{"bin/nvidia-imex": program("imex"), "bin/nvidia-imex-ctl": program("ctl")}),
		"nscq": componentArchive(t, "libnvidia_nscq", map[string]string{"lib/libnvidia-nscq.so." + newDriver: library}),
	})
	target := "--os debian12 --arch amd64 --driver " + newDriver
	u.components(t, "lock "+target).Want(t, 0)
	first := u.components(t, target+" --output oci:"+u.Path("one"))
	first.Want(t, 0)
	fetched := u.components(t, "fetch "+target)
	fetched.Want(t, 0)
	assert.Equalf(t, 2, strings.Count(fetched.Stdout, "/redist/"), "archives of components: %s", fetched.Stdout)
	require.NoError(t, os.WriteFile(u.Path("fetched"), []byte(fetched.Stdout), 0o600))
	file, tag := u.Path("fleet.tar"), newDriver+"-debian12"
	u.Run(t, "bundle", "create", "--output", file, "--repository", u.Host+"/gpu/driver", "oci:"+u.Path("one")+":"+tag,
		"--inputs", u.Path("fetched"), "--file", u.Path("components.lock"), "--file", u.Path("components.yaml")).Want(t, 0)
	u.Run(t, "bundle", "verify", file, "--allow-unsigned").Want(t, 0)

	u.Cache = t.TempDir()
	require.NoError(t, os.Mkdir(u.Path("site"), 0o700))
	site := u.Host + "/site/driver"
	u.Run(t, "bundle", "import", file, "--to", site, "--allow-unsigned", "--inputs", u.Path("site")).Want(t, 0)
	inspected := u.Run(t, "inspect", "--deep", site+":"+tag)
	inspected.Want(t, 0)
	for _, want := range []string{"imex " + newDriver, "nscq " + newDriver} {
		assert.Contains(t, inspected.Stdout, want)
	}
	u.Fault(refuse(500, ""))
	second := u.Run(t, append(strings.Fields(target), "--offline", "--matrix", u.Path("site/components.yaml"), "--lock", u.Path("site/components.lock"),
		"--output", "oci:"+u.Path("two"))...)
	second.Want(t, 0)
	assert.Equalf(t, second.Digest(t), first.Digest(t), "the digests differ")
}
