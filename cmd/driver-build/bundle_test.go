package main

import (
	"archive/tar"
	"bytes"
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
