package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/lockfile"
)

// tool runs a command that takes the matrix and writes beside it.
func (u *user) tool(t *testing.T, args string) result {
	t.Helper()
	return u.Run(t, append(strings.Fields(args), "--matrix", u.Path("matrix.yaml"))...)
}

func (u *user) lock(t *testing.T) *lockfile.Lock {
	t.Helper()
	return require.Value(lockfile.Read(u.Path("matrix.lock"), nil))(t)
}

// TestLock: an image built from the lock is the image that was built without, and nothing but files is asked
// for.
func TestLock(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := "--os debian12 --driver " + newDriver
	first := u.Run(t, append(strings.Fields(target), "--output", "oci:"+u.Path("one"))...).Want(t, 0)
	u.Cache = t.TempDir()
	r := u.tool(t, "lock --arch amd64 "+target).Want(t, 0)
	assert.Equalf(t, true, strings.Count(r.Stdout, "\n") == 1 && strings.HasPrefix(r.Stdout, "535.261.03-debian12/amd64: new, base "), "%q", r.Stdout)
	goldentest.Compare(t, "testdata/matrix.lock", u.Normal(testfile.Read(t, u.Path("matrix.lock"))))
	assert.Equalf(t, true, u.Requests("/pool/") > 0, "the first build downloaded nothing")
	u.Cache = t.TempDir()
	indexes := u.Requests("/dists/")
	second := u.Run(t, append(strings.Fields(target), "--output", "oci:"+u.Path("two"))...).Want(t, 0)
	assert.Equalf(t, second.Digest(t), first.Digest(t), "the digests differ")
	assert.Equalf(t, indexes, u.Requests("/dists/"), "requests for indexes")
	u.Cache = t.TempDir()
	u.tool(t, "fetch "+target).Want(t, 0)
	u.Fault(refuse(500, ""))
	third := u.Run(t, append(strings.Fields(target), "--offline", "--output", "oci:"+u.Path("three"))...).Want(t, 0)
	assert.Equalf(t, third.Digest(t), first.Digest(t), "the digests differ offline")
	u.Fault(nil)
	assert.Equal(t, "", u.tool(t, "lock --check --arch amd64 "+target).Want(t, 0).Stdout)
	u.Run(t, append(strings.Fields(target), "--arch", "arm64", "--output", "oci:"+u.Path("x"))...).Want(t, 2,
		"535.261.03-debian12/arm64 is not locked: driver-build lock --matrix "+u.Path("matrix.yaml")+" --arch arm64 --update 535.261.03-debian12/arm64")
	u.Run(t, append(strings.Fields(target), "--arch", "arm64", "--lock", "none", "--output", "oci:"+u.Path("x"))...).Want(t, 0)
	u.Run(t, append(strings.Fields(target), "--lock", u.Path("other.lock"))...).Want(t, 2, "other.lock", "driver-build lock --lock")
	u.Run(t, append(strings.Fields(target), "--dry-run", "--base", u.Base("debian12")+"@"+u.lock(t).Images["535.261.03-debian12/amd64"].Recipe.Base.Digest)...).Want(t, 2, "base image: ", "->", "--update")
}

// TestLockUpdate: what is there stays until it is updated; the difference has a line for each package.
func TestLockUpdate(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := " --os debian12 --driver " + newDriver
	u.tool(t, "lock --all --arch amd64,arm64").Want(t, 0)
	assert.Equalf(t, 6, len(u.lock(t).Images), "targets are locked")
	before := testfile.Read(t, u.Path("matrix.lock"))
	a := u.Archives["debian12"]
	p := a.Find("libtirpc3", "amd64")
	old := a.Path(*p)
	p.Control = strings.Replace(p.Control, "Version: ", "Version: 9:", 1)
	a.Publish()
	u.tool(t, "lock").Want(t, 0)
	assert.Equalf(t, before, testfile.Read(t, u.Path("matrix.lock")), "lock without --update")
	r := u.tool(t, "lock --update --check").Want(t, 3, "matrix.lock is not up to date")
	assert.Equalf(t, 1, strings.Count(r.Stdout, "\n"), "%s", r.Stdout)
	assert.Contains(t, r.Stdout, "535.261.03-debian12/amd64: package libtirpc3: ")
	assert.Contains(t, r.Stdout, " -> 9:")
	// While the server has the old file the lock works. When the file is removed, the build says what replaced
	// it.
	u.Run(t, append(strings.Fields(target), "--output", "oci:"+u.Path("x"))...).Want(t, 0)
	u.Cache = t.TempDir()
	u.Fault(refuse(404, old))
	u.Run(t, append(strings.Fields(target), "--output", "oci:"+u.Path("x"))...).Want(t, 4, "is not what was locked", "404", "package libtirpc3: ", " -> 9:", "--update 535.261.03-debian12/amd64")
	u.tool(t, "check"+target).Want(t, 3)
	u.tool(t, "lock --update 535.261.03-debian12x").Want(t, 2, "did you mean 535.261.03-debian12")
	u.tool(t, "lock 535.261.03-debian12").Want(t, 2, "targets follow --update")
	u.tool(t, "lock --update 535.261.03-debian12").Want(t, 0)
	u.Run(t, append(strings.Fields(target), "--output", "oci:"+u.Path("x"))...).Want(t, 0)
	u.Fault(nil)
	// A build refuses a row that changed; the next lock resolves it again, also without --update.
	u.PutRun(oldDriver, "amd64", append(u.Runs[oldDriver+" amd64"], "\n"...))
	u.Run(t, "--os", "ubuntu18.04", "--driver", oldDriver, "--output", "oci:"+u.Path("y")).Want(t, 2, "driver archive: ", " -> ", "--update 418.87.01-ubuntu18.04/amd64")
	u.tool(t, "lock --check").Want(t, 3)
	u.tool(t, "lock").Want(t, 0)
	u.tool(t, "lock --check").Want(t, 0)
}

// TestLockKernels: the words of --kernel mean what they meant when they were locked.
func TestLockKernels(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := " --os debian12 --driver " + newDriver
	dry := func(flags string) string {
		t.Helper()
		return u.Run(t, strings.Fields(target+" --dry-run "+flags)...).Want(t, 0).Stdout
	}
	plain := dry("--kernel latest")
	u.tool(t, "lock --arch amd64 --kernel latest"+target).Want(t, 0)
	assert.Equalf(t, plain, dry("--kernel latest"), "the recipe from the lock is another one")
	u.offers("debian12", "6.1.0-99-amd64", imagetest.Kernel)
	for _, flags := range []string{"--kernel latest", "--kernel " + imagetest.Kernel} {
		assert.Equalf(t, plain, dry(flags), "%s: a newer kernel changed the recipe", flags)
	}
	u.Run(t, strings.Fields(target+" --dry-run --kernel latest:2")...).Want(t, 2, "--kernel latest:2", "is not locked")
	u.tool(t, "lock --arch amd64 --kernel latest"+target).Want(t, 0)
	u.tool(t, "lock --arch amd64 --kernel "+imagetest.Kernel+target).Want(t, 0)
	r := u.tool(t, "lock --arch amd64 --kernel latest --update"+target).Want(t, 0)
	l := u.lock(t)
	old, ok := l.Find("535.261.03-"+imagetest.Kernel+"-debian12", "amd64")
	if now, found := l.Find("535.261.03-6.1.0-99-amd64-debian12", "amd64"); !ok || !found || len(old.Kernels) != 1 || old.Kernels[0] != imagetest.Kernel || now.Kernels[0] != "latest" {
		t.Errorf("%v\n%s", l.Names(), r.Stdout)
	}
	u.tool(t, "lock --arch amd64 --kernel all --one-image"+target).Want(t, 0)
	assert.Contains(t, dry("--kernel all --one-image"), "6.1.0-99-amd64")
	u.Run(t, strings.Fields(target+" --dry-run")...).Want(t, 2, "kernel: gone: 6.1.0-99-amd64")
}

// TestLockForm: the lock holds no path of this machine and no secret; a merge with conflicts is reported as
// one.
func TestLockForm(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := "--os ubuntu18.04 --driver " + oldDriver
	host := strings.TrimPrefix(u.URL, "http://")
	u.tool(t, "lock "+target+" --mirror http://me:secret@"+host).Want(t, 0)
	locked := testfile.Read(t, u.Path("matrix.lock"))
	assert.Equalf(t, false, strings.Contains(locked, "secret") || strings.Contains(locked, u.Dir), "%s", locked)
	assert.Contains(t, locked, `"mirror":`)
	var asked atomic.Bool // requests are served at the same time
	u.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		_, password, _ := r.BasicAuth()
		asked.CompareAndSwap(false, password == "secret")
		return false
	})
	u.Cache = t.TempDir()
	u.Run(t, append(strings.Fields(target), "--mirror", "http://me:secret@"+host, "--output", "oci:"+u.Path("x"))...).Want(t, 0)
	assert.Equalf(t, true, asked.Load(), "the mirror was asked without its credentials")
	u.Run(t, append(strings.Fields(target), "--mirror", "http://localhost:1/x", "--output", "oci:"+u.Path("x"))...).Want(t, 2, "mirror: ", "http://localhost:1/x", "HOST/PATH=URL")
	u.Cache = t.TempDir()
	u.Run(t, append(strings.Fields(target), "--mirror", host+"=http://localhost:1", "--output", "oci:"+u.Path("x"))...).Want(t, 4, "localhost:1")
	u.file(t, "matrix.lock", "<<<<<<< HEAD\n"+locked)
	u.Run(t, strings.Fields(target)...).Want(t, 2, "merge", "driver-build lock")
	u.tool(t, "lock --arch amd64 "+target).Want(t, 2, "merge")
	u.tool(t, "lock --arch amd64 --update "+target).Want(t, 0)
}
