package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// extended is a user whose matrix has what the module sources can have besides: a patch beside the matrix,
// one at an address, a companion in a package and one in an archive.
type extended struct {
	*user
	matrix string
	target []string
}

// patchEntry is a patch in the matrix.
func patchEntry(where, text string) string {
	return fmt.Sprintf("      - {%s, sha256: %x, kernels: [{from: 6.1.187, below: 6.2}], flavours: [open], sources: [packages], licence: MIT, reason: r, origin: o}\n",
		where, sha256.Sum256([]byte(text)))
}

func newExtended(t *testing.T) *extended {
	t.Helper()
	u := newUser(t)
	a := u.Archives["debian12"]
	const fs = "usr/src/nvidia-fs-2.13.5/"
	a.Packages = append(a.Packages, repotest.Deb{
		Component: "non-free", Control: "Package: nvidia-fs-dkms\nVersion: 2.13.5~11.8.0-5\nArchitecture: amd64\nDepends: dkms\nDescription: for tests",
		Files: []repotest.File{
			{Name: fs + "Makefile", Body: "all:\n"}, {Name: fs + "configure", Body: "#!/bin/sh\n", Mode: 0o755}, {Name: fs + "GDS_VERSION", Body: "2.13.5\n"},
			{Name: "usr/share/doc/nvidia-fs-dkms/copyright", Body: "MIT\n"},
		},
	})
	a.Publish()
	gdr := repotest.Compress(t, ".gz", repotest.Tar(t, "gdrcopy-2.5.2/", []repotest.File{
		{Name: "src/gdrdrv/Makefile", Body: "all:\n"}, {Name: "src/gdrdrv/gdrdrv.c", Body: "int x;\n"}, {Name: "LICENSE", Body: "MIT\n"},
	}))
	u.Put("/companions/gdrcopy-2.5.2.tar.gz", gdr)
	const beside = "--- a/kernel-open/nvidia/nv.c\n+++ b/kernel-open/nvidia/nv.c\n@@ -1 +1,2 @@\n int x;\n+int y;\n"
	const fetched = "--- a/kernel-open/Makefile\n+++ b/kernel-open/Makefile\n@@ -1 +1,2 @@\n all:\n+clean:\n"
	u.Put("/patches/two.patch", []byte(fetched))
	u.file(t, "origin/patches/535/one.patch", beside)
	rules := "  - version: " + newDriver + "\n    kernel: {broken: [{from: 6.1.187, below: 6.2, flavours: [open], reason: r}]}\n    patches:\n" +
		patchEntry("file: patches/535/one.patch", beside) + patchEntry("url: "+u.URL+"/patches/two.patch", fetched)
	text := strings.Replace(u.Matrix(), "  - version: "+newDriver+"\n", rules, 1) + fmt.Sprintf(`companions:
  - {name: nvidia-fs, version: 2.13.5, debian: {package: nvidia-fs-dkms, systems: {debian12: 2.13.5~11.8.0-5}}, archs: [amd64], licence: MIT, reason: r}
  - {name: gdrdrv, version: 2.5.2, archive: {url: %s, sha256: %x}, licence: MIT, reason: r}
`, u.URL+"/companions/gdrcopy-2.5.2.tar.gz", sha256.Sum256(gdr))
	file := u.file(t, "origin/matrix.yaml", text)
	return &extended{u, file, []string{"--os", "debian12", "--arch", "amd64", "--driver", newDriver, "--companions", "all", "--matrix", file}}
}

// with returns arguments for the target, with more before and after them.
func (e *extended) with(before string, after ...string) []string {
	return append(append(strings.Fields(before), e.target...), after...)
}

// TestBundlePatchesCompanions carries the inputs of an image with patches and companions into a site without
// network, which builds the same digest from them: fetch and lock name all of them, and a matrix brings its
// patches.
func TestBundlePatchesCompanions(t *testing.T) {
	t.Parallel()
	e := newExtended(t)
	e.Run(t, e.with("lock")...).Want(t, 0)
	assert.Contains(t, testfile.Read(t, e.Path("origin/matrix.lock")), `"package":{"name":"nvidia-fs-dkms"`)
	first := e.Run(t, e.with("", "--output", "oci:"+e.Path("one"))...).Want(t, 0)
	fetched := e.Run(t, e.with("fetch")...).Want(t, 0)
	for _, part := range []string{"/patches/two.patch", "/companions/gdrcopy-2.5.2.tar.gz", "/nvidia-fs-dkms_2.13.5"} {
		assert.Equalf(t, 1, strings.Count(fetched.Stdout, part), "%s in what was fetched:\n%s", part, fetched.Stdout)
	}
	e.file(t, "fetched", fetched.Stdout)
	file, tag := e.Path("fleet.tar"), newDriver+"-debian12"
	e.Run(t, "bundle", "create", "--output", file, "--repository", e.Host+"/gpu/driver", "oci:"+e.Path("one")+":"+tag,
		"--inputs", e.Path("fetched"), "--file", e.Path("origin/matrix.lock"), "--file", e.matrix).Want(t, 0)
	e.Run(t, "bundle", "verify", file, "--allow-unsigned").Want(t, 0)

	e.Cache = t.TempDir()
	require.NoError(t, os.Mkdir(e.Path("site"), 0o700))
	site := e.Host + "/site/driver"
	e.Run(t, "bundle", "import", file, "--to", site, "--allow-unsigned", "--inputs", e.Path("site")).Want(t, 0)
	inspected := e.Run(t, "inspect", "--deep", site+":"+tag).Want(t, 0)
	for _, part := range []string{"Companions  gdrdrv 2.5.2, nvidia-fs 2.13.5", "Patched     open sources: one", "Patched     open sources: two"} {
		assert.Contains(t, inspected.Stdout, part)
	}
	assert.Contains(t, e.Run(t, "inspect", site+":"+tag).Stdout, "Patched     one sha256:")
	e.Fault(refuse(500, ""))
	e.matrix, e.target[len(e.target)-1] = e.Path("site/matrix.yaml"), e.Path("site/matrix.yaml")
	second := e.Run(t, e.with("", "--offline", "--output", "oci:"+e.Path("two"))...).Want(t, 0)
	assert.Equalf(t, first.Digest(t), second.Digest(t), "the digest at the site")
}

// TestBundleKeyElsewhere: a key that a matrix names and that is not beside it stays out of the bundle, which
// says so; a matrix that cannot be read is refused before anything is written.
func TestBundleKeyElsewhere(t *testing.T) {
	t.Parallel()
	e := newExtended(t)
	e.Run(t, e.with("", "--output", "oci:"+e.Path("one"))...).Want(t, 0)
	create := []string{"bundle", "create", "--output", e.Path("fleet.tar"), "--repository", e.Host + "/gpu/driver",
		"oci:" + e.Path("one") + ":" + newDriver + "-debian12", "--file", e.matrix}
	key := e.file(t, "site.asc", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
	elsewhere := strings.Replace(testfile.Read(t, e.matrix), "  - id: debian12\n", "  - id: debian12\n    repositories: [{uris: ["+e.URL+"/extra], suites: [x], components: [main], key: "+key+"}]\n", 1)
	e.file(t, "origin/matrix.yaml", elsewhere)
	e.Run(t, create...).Want(t, 0, "names "+key+", which the import could not put beside it")
	require.NoError(t, errors.Join(os.Remove(e.Path("origin/patches/535/one.patch")), os.Remove(e.Path("fleet.tar"))))
	e.Run(t, create...).Want(t, 2, "--file", "one.patch", "cannot be read")
	assert.Errorf(t, assert.Err(os.Stat(e.Path("fleet.tar"))), "a bundle was written")
}

// TestCheckPatchesCompanions: a patch or an archive of a companion that is not at its address
// breaks the pair.
func TestCheckPatchesCompanions(t *testing.T) {
	t.Parallel()
	e := newExtended(t)
	check := func(code int) string {
		return rows(t, e.Run(t, e.with("check", "-o", "json")...).Want(t, code))[newDriver+"-debian12 amd64"].Archive.Detail
	}
	check(0)
	for path, want := range map[string]string{"/companions/": "companion gdrdrv: ", "/patches/": "patch two: "} {
		e.Fault(refuse(404, path))
		assert.Contains(t, check(3), want)
	}
}

// TestListPatchesCompanions: list and the report's page name patches and companions: of an image that is
// missing those of the matrix, of one in the registry those that it has.
func TestListPatchesCompanions(t *testing.T) {
	t.Parallel()
	e := newExtended(t)
	const patches, companions = "one (open), two (open)", "gdrdrv 2.5.2, nvidia-fs 2.13.5"
	r := e.Run(t, e.with("list")...).Want(t, 0)
	assert.Contains(t, r.Stdout, "companions: "+companions+"; patches: "+patches)
	for _, flags := range [][]string{{"--no-patches"}, {"--flavour", "proprietary"}} {
		r = e.Run(t, e.with("list", flags...)...).Want(t, 0)
		assert.Equalf(t, false, strings.Contains(r.Stdout, "patches"), "%s: %s", flags, r.Stdout)
	}
	report := func(args ...string) string {
		return e.Run(t, append([]string{"report", "--html", "-", "--os", "debian12", "--driver", newDriver, "--matrix", e.matrix}, args...)...).Want(t, 0).Stdout
	}
	assert.Contains(t, report("--companions", "all"), "<small>patched: "+patches+"</small><small>with "+companions+"</small>")
	repository := e.Host + "/team/driver"
	e.Run(t, e.with("", "--push", "--repository", repository)...).Want(t, 0)
	assert.Contains(t, report("--repository", repository), "<small>patched: one, two</small><small>with gdrdrv 2.5.2, nvidia-fs 2.13.5</small>")
}
