package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/goldentest"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/lockfile"
)

// tool runs a command that takes the matrix and writes beside it.
func (u *user) tool(t *testing.T, args string) result {
	t.Helper()
	return u.run(t, append(strings.Fields(args), "--matrix", u.path("matrix.yaml"))...)
}

func (u *user) lock(t *testing.T) *lockfile.Lock {
	t.Helper()
	return require.Value(lockfile.Read(u.path("matrix.lock"), nil))(t)
}

func TestToolHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"lock", "check", "plan"} {
		r := call(t.Context(), t, nil, command, "--help")
		r.want(t, 0)
		goldentest.Compare(t, "testdata/help-"+command+".txt", r.stdout)
	}
}

// TestLock: an image built from the lock is the image that was built without, and nothing but files is asked
// for.
func TestLock(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := "--os debian12 --driver " + newDriver
	first := u.run(t, append(strings.Fields(target), "-o", "oci:"+u.path("one"))...)
	first.want(t, 0)
	u.cache = t.TempDir()
	r := u.tool(t, "lock "+target)
	r.want(t, 0)
	if r.stdout == "" || strings.Count(r.stdout, "\n") != 1 || !strings.HasPrefix(r.stdout, "535.261.03-debian12/amd64: new, base ") {
		t.Errorf("%q", r.stdout)
	}
	data := require.Value(os.ReadFile(u.path("matrix.lock")))(t)
	goldentest.Compare(t, "testdata/matrix.lock", u.normal(string(data)))
	if n := u.Requests("/pool/"); n == 0 {
		t.Error("the first build downloaded nothing")
	}
	u.cache = t.TempDir()
	indexes := u.Requests("/dists/")
	second := u.run(t, append(strings.Fields(target), "-o", "oci:"+u.path("two"))...)
	second.want(t, 0)
	assert.Equalf(t, second.digest(t), first.digest(t), "the digests differ")
	if n := u.Requests("/dists/"); n != indexes {
		t.Errorf("%d indexes were asked for", n-indexes)
	}
	u.cache = t.TempDir()
	u.tool(t, "fetch "+target).want(t, 0)
	u.Fault(refuse(500, ""))
	third := u.run(t, append(strings.Fields(target), "--offline", "-o", "oci:"+u.path("three"))...)
	third.want(t, 0)
	assert.Equalf(t, third.digest(t), first.digest(t), "the digests differ offline")
	u.Fault(nil)
	if r := u.tool(t, "lock --check "+target); r.code != 0 || r.stdout != "" {
		t.Errorf("check: %+v", r)
	}
	u.run(t, append(strings.Fields(target), "--arch", "arm64", "-o", "oci:"+u.path("x"))...).want(t, 2,
		"535.261.03-debian12/arm64 is not locked: driver-build lock --matrix "+u.path("matrix.yaml")+" --update 535.261.03-debian12/arm64")
	u.run(t, append(strings.Fields(target), "--arch", "arm64", "--lock", "none", "-o", "oci:"+u.path("x"))...).want(t, 0)
	u.run(t, append(strings.Fields(target), "--lock", u.path("other.lock"))...).want(t, 2, "other.lock", "driver-build lock --lock")
	u.run(t, append(strings.Fields(target), "--dry-run", "--base", u.Base("debian12")+"@"+u.lock(t).Targets["535.261.03-debian12/amd64"].Pins.Base.Digest)...).want(t, 2, "base image: ", "->", "--update")
}

// TestLockUpdate: what is there stays until it is updated; the difference has a line for each package.
func TestLockUpdate(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := " --os debian12 --driver " + newDriver
	u.tool(t, "lock --all").want(t, 0)
	assert.Equalf(t, 6, len(u.lock(t).Targets), "targets are locked")
	before, _ := os.ReadFile(u.path("matrix.lock"))
	a := u.Archives["debian12"]
	p := a.Find("libtirpc3", "amd64")
	old := a.Path(*p)
	p.Control = strings.Replace(p.Control, "Version: ", "Version: 9:", 1)
	a.Publish()
	u.tool(t, "lock").want(t, 0)
	if after, _ := os.ReadFile(u.path("matrix.lock")); string(before) != string(after) {
		t.Error("lock without --update changed something")
	}
	r := u.tool(t, "lock --update --check")
	r.want(t, 3, "matrix.lock is not up to date")
	if strings.Count(r.stdout, "\n") != 1 || !strings.Contains(r.stdout, "535.261.03-debian12/amd64: package libtirpc3: ") || !strings.Contains(r.stdout, " -> 9:") {
		t.Error(r.stdout)
	}
	// While the server has the old file the lock works. When the file is removed, the build says what replaced
	// it.
	u.run(t, append(strings.Fields(target), "-o", "oci:"+u.path("x"))...).want(t, 0)
	u.cache = t.TempDir()
	u.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == old {
			http.NotFound(w, r)
		}
		return r.URL.Path == old
	})
	r = u.run(t, append(strings.Fields(target), "-o", "oci:"+u.path("x"))...)
	r.want(t, 4, "is not what was locked", "404", "package libtirpc3: ", " -> 9:", "--update 535.261.03-debian12/amd64")
	u.tool(t, "check"+target).want(t, 3)
	u.tool(t, "lock --update 535.261.03-debian12x").want(t, 2, "did you mean 535.261.03-debian12")
	u.tool(t, "lock 535.261.03-debian12").want(t, 2, "targets follow --update")
	u.tool(t, "lock --update 535.261.03-debian12").want(t, 0)
	u.run(t, append(strings.Fields(target), "-o", "oci:"+u.path("x"))...).want(t, 0)
	u.Fault(nil)
	// A build refuses a row that changed; the next lock resolves it again, also without --update.
	u.PutRun(oldDriver, "amd64", imagetest.Run(t, oldDriver, "amd64", imagetest.DriverFiles(oldDriver, "amd64"), nil))
	u.Runs[oldDriver+" amd64"] = append(u.Runs[oldDriver+" amd64"], "\n"...)
	u.PutRun(oldDriver, "amd64", u.Runs[oldDriver+" amd64"])
	r = u.run(t, "--os", "ubuntu18.04", "--driver", oldDriver, "-o", "oci:"+u.path("y"))
	r.want(t, 2, "driver archive: ", " -> ", "--update 418.87.01-ubuntu18.04/amd64")
	u.tool(t, "lock --check").want(t, 3)
	u.tool(t, "lock").want(t, 0)
	u.tool(t, "lock --check").want(t, 0)
}

// TestLockKernels: the words of --kernel mean what they meant when they were locked.
func TestLockKernels(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := " --os debian12 --driver " + newDriver
	dry := func(flags string) string {
		t.Helper()
		r := u.run(t, strings.Fields(target+" --dry-run "+flags)...)
		r.want(t, 0)
		return r.stdout
	}
	plain := dry("--kernel latest")
	u.tool(t, "lock --kernel latest"+target).want(t, 0)
	assert.Equalf(t, plain, dry("--kernel latest"), "the recipe from the lock is another one")
	u.offers("debian12", "6.1.0-99-amd64", imagetest.Kernel)
	for _, flags := range []string{"--kernel latest", "--kernel " + imagetest.Kernel} {
		assert.Equalf(t, plain, dry(flags), "%s: a newer kernel changed the recipe", flags)
	}
	u.run(t, strings.Fields(target+" --dry-run --kernel latest:2")...).want(t, 2, "--kernel latest:2", "is not locked")
	u.tool(t, "lock --kernel latest"+target).want(t, 0)
	u.tool(t, "lock --kernel "+imagetest.Kernel+target).want(t, 0)
	r := u.tool(t, "lock --kernel latest --update"+target)
	r.want(t, 0)
	l := u.lock(t)
	old, ok := l.Find("535.261.03-"+imagetest.Kernel+"-debian12", "amd64")
	if now, found := l.Find("535.261.03-6.1.0-99-amd64-debian12", "amd64"); !ok || !found || len(old.Kernels) != 1 || old.Kernels[0] != imagetest.Kernel || now.Kernels[0] != "latest" {
		t.Errorf("%v\n%s", l.Names(), r.stdout)
	}
	u.tool(t, "lock --kernel all --one-image"+target).want(t, 0)
	assert.Contains(t, dry("--kernel all --one-image"), "6.1.0-99-amd64")
	u.run(t, strings.Fields(target+" --dry-run")...).want(t, 2, "kernel: gone: 6.1.0-99-amd64")
}

// TestLockForm: the lock holds no path of this machine and no secret; a merge with conflicts is reported as
// one.
func TestLockForm(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := "--os ubuntu18.04 --driver " + oldDriver
	host := strings.TrimPrefix(u.URL, "http://")
	u.tool(t, "lock "+target+" --mirror http://me:secret@"+host).want(t, 0)
	data, _ := os.ReadFile(u.path("matrix.lock"))
	if s := string(data); strings.Contains(s, "secret") || strings.Contains(s, u.dir) || !strings.Contains(s, "mirror: ") {
		t.Error(s)
	}
	asked := 0
	u.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		if _, password, _ := r.BasicAuth(); password == "secret" {
			asked++
		}
		return false
	})
	u.cache = t.TempDir()
	u.run(t, append(strings.Fields(target), "--mirror", "http://me:secret@"+host, "-o", "oci:"+u.path("x"))...).want(t, 0)
	if asked == 0 {
		t.Error("the mirror was asked without its credentials")
	}
	u.run(t, append(strings.Fields(target), "--mirror", "http://localhost:1/x", "-o", "oci:"+u.path("x"))...).want(t, 2, "mirror: ", "http://localhost:1/x", "HOST/PATH=URL")
	u.cache = t.TempDir()
	u.run(t, append(strings.Fields(target), "--mirror", host+"=http://localhost:1", "-o", "oci:"+u.path("x"))...).want(t, 4, "localhost:1")
	require.NoError(t, os.WriteFile(u.path("matrix.lock"), append([]byte("<<<<<<< HEAD\n"), data...), 0o600))
	u.run(t, strings.Fields(target)...).want(t, 2, "merge", "driver-build lock")
	u.tool(t, "lock "+target).want(t, 2, "merge")
	u.tool(t, "lock --update "+target).want(t, 0)
}
