package main

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/lockfile"
)

// rpmUser is a user in a world of one rpm system.
type rpmUser struct {
	*user
	*imagetest.RPMSystem
	world *imagetest.RPMWorld
}

func newRPMUser(t *testing.T, id string) *rpmUser {
	t.Helper()
	w := imagetest.NewRPM(t, id)
	return &rpmUser{&user{commandtest.In(t, w.World, newRootCmd)}, w.Systems[id], w}
}

// matrix runs a command, given as words, with the world's matrix.
func (u *rpmUser) matrix(t *testing.T, words string) result {
	t.Helper()
	return u.Run(t, append(strings.Fields(words), "--matrix", u.file(t, "rpm.yaml", u.world.Matrix()))...)
}

// TestRPMRollback: every command refuses a mirror that serves an old index, and so do later commands;
// --allow-rollback accepts it for one call.
func TestRPMRollback(t *testing.T) {
	t.Parallel()
	u := newRPMUser(t, "rocky9")
	build := "--os rocky9 --driver " + newDriver + " --output oci:" + u.Path("dist")
	u.matrix(t, build).Want(t, 0)
	u.Revision -= 24 * 3600
	u.Publish()
	u.matrix(t, build).Want(t, 5, "older than before", "2023-11-13", "2023-11-14")
	u.matrix(t, "kernels --os rocky9").Want(t, 5, "older than before")
	u.matrix(t, "lock --os rocky9 --driver "+newDriver).Want(t, 5, "older than before")
	u.matrix(t, build+" --allow-rollback").Want(t, 0)
	u.matrix(t, build).Want(t, 5, "older than before")
}

// TestRPMCommands: the other commands, on an image and a system of .rpm packages.
func TestRPMCommands(t *testing.T) {
	t.Parallel()
	u := newRPMUser(t, "rocky9")
	target := "--os rocky9 --driver " + newDriver
	repository := u.Host + "/team/driver"
	u.matrix(t, target+" --push --repository "+repository).Want(t, 0)
	image := repository + ":" + newDriver + "-rocky9.4" // an alias
	u.Run(t, "verify", image).Want(t, 0)
	r := u.Run(t, "inspect", "--deep", "-o", "json", image).Want(t, 0)
	assert.Contains(t, r.Stdout, `"version": "1:4.3-8.el9"`)
	assert.Equalf(t, false, strings.Contains(r.Stdout, "gpg-pubkey"), "%s", r.Stdout)
	r = u.matrix(t, "kernels --os rocky9 -o json").Want(t, 0)
	for _, release := range []string{imagetest.RPMKernel, imagetest.RPMOldKernel, imagetest.RPMRTKernel} {
		assert.Contains(t, r.Stdout, release)
	}
	assert.Equalf(t, false, strings.Contains(r.Stdout, imagetest.RPMOrphanKernel), "%s", r.Stdout)
	r = u.matrix(t, target+" --dry-run --kernel latest").Want(t, 0)
	assert.Contains(t, r.Stdout, newDriver+"-"+imagetest.RPMKernel+"-rocky9")
	assert.Contains(t, r.Stdout, `"name": "perl-interpreter"`)
	u.matrix(t, "check "+target).Want(t, 0)
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
			first := u.matrix(t, target+" --output oci:"+u.Path("one")).Want(t, 0)
			u.Cache = t.TempDir()
			u.matrix(t, "lock "+target).Want(t, 0)
			l := require.Value(lockfile.Read(u.Path("rpm.lock"), nil))(t)
			for _, p := range l.Images[driver+"-"+id+"/amd64"].Recipe.AllPackages() {
				if u.Signed == (len(p.Keys) > 0) || u.SHA512 == (p.SHA512 == "") || u.SHA512 != (p.SHA256 == "") {
					t.Errorf("%+v", p)
				}
			}
			indexes := u.Requests("/repodata/")
			u.Cache = t.TempDir()
			second := u.matrix(t, target+" --output oci:"+u.Path("two")).Want(t, 0)
			assert.Equalf(t, first.Digest(t), second.Digest(t), "the digests differ")
			assert.Equalf(t, indexes, u.Requests("/repodata/"), "requests for indexes")
			u.Cache = t.TempDir()
			u.matrix(t, "fetch "+target).Want(t, 0)
			u.Fault(refuse(500, ""))
			third := u.matrix(t, target+" --offline --output oci:"+u.Path("three")).Want(t, 0)
			assert.Equalf(t, third.Digest(t), first.Digest(t), "the digests differ offline")
			u.Fault(nil)
			u.matrix(t, "lock --check "+target).Want(t, 0)
			u.Find("kmod").EVR = "29-1"
			u.Publish()
			r := u.matrix(t, "lock --check --update "+target).Want(t, 3)
			assert.Contains(t, r.Stdout, "package kmod: 28-9")
			assert.Contains(t, r.Stdout, " -> 29-1")
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
	u.matrix(t, "--os rocky9 --driver "+newDriver+" --output oci:"+u.Path("x")).Want(t, 5, "package kmod 28-9.el9", "it is not signed")
}
