package main

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/lockfile"
)

// firstDigest is that of the first tag; aliases have the same.
func firstDigest(t *testing.T, r result) string {
	t.Helper()
	lines := strings.Fields(r.Stdout)
	if len(lines) == 0 {
		t.Fatalf("no image: %s", r.Stderr)
	}
	first := result{Stdout: lines[0]}.Digest(t)
	for _, line := range lines {
		if !strings.HasSuffix(line, "@sha256:"+first) {
			t.Errorf("%s has another digest than %s", line, lines[0])
		}
	}
	return first
}

// TestRPMLock: an image from the lock is the image that was built without, no repository is asked, and the
// lock has the keys.
func TestRPMLock(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"rocky9", "opensuse-leap15.6", "centos7"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			u := newRPMUser(t, id)
			driver := newDriver
			if id == "centos7" {
				driver = oldDriver
			}
			target := "--os " + id + " --driver " + driver
			first := u.matrix(t, target+" --output oci:"+u.user.Path("one")).Want(t, 0)
			u.Cache = t.TempDir()
			u.matrix(t, "lock "+target).Want(t, 0)
			l := require.Value(lockfile.Read(u.user.Path("rpm.lock"), nil))(t)
			for _, p := range l.Images[driver+"-"+id+"/amd64"].Recipe.AllPackages() {
				if u.Signed == (len(p.Keys) > 0) || u.SHA512 == (p.SHA512 == "") || u.SHA512 != (p.SHA256 == "") {
					t.Errorf("%+v", p)
				}
			}
			indexes := u.Requests("/repodata/")
			u.Cache = t.TempDir()
			second := u.matrix(t, target+" --output oci:"+u.user.Path("two")).Want(t, 0)
			if firstDigest(t, first) != firstDigest(t, second) || u.Requests("/repodata/") != indexes {
				t.Errorf("%d indexes were asked for", u.Requests("/repodata/")-indexes)
			}
			u.Cache = t.TempDir()
			u.matrix(t, "fetch "+target).Want(t, 0)
			u.Fault(refuse(500, ""))
			third := u.matrix(t, target+" --offline --output oci:"+u.user.Path("three")).Want(t, 0)
			assert.Equalf(t, firstDigest(t, third), firstDigest(t, first), "the digests differ offline")
			u.Fault(nil)
			u.matrix(t, "lock --check "+target).Want(t, 0)
			u.Find("kmod").EVR = "29-1"
			u.Publish()
			if r := u.matrix(t, "lock --check --update "+target); r.Code != 3 || !strings.Contains(r.Stdout, "package kmod: 28-9") || !strings.Contains(r.Stdout, " -> 29-1") {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestRPMLockSignature: a package from the lock must be signed by a key that was locked.
func TestRPMLockSignature(t *testing.T) {
	t.Parallel()
	u := newRPMUser(t, "rocky9")
	u.Find("kmod").Unsigned = true
	u.Publish()
	u.matrix(t, "lock --os rocky9 --driver "+newDriver).Want(t, 0)
	u.matrix(t, "--os rocky9 --driver "+newDriver+" --output oci:"+u.user.Path("x")).Want(t, 5, "package kmod 28-9.el9", "it is not signed")
}
