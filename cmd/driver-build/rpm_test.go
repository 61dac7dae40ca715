package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/commandtest"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/packtest"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/ci/require"
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
	file := u.user.Path("rpm.yaml")
	require.NoError(t, os.WriteFile(file, []byte(u.world.Matrix()), 0o600))
	return u.Run(t, append(strings.Fields(words), "--matrix", file)...)
}

// TestRPMFailures: exit codes and what is said about repositories, packages and bases that are refused.
func TestRPMFailures(t *testing.T) {
	t.Parallel()
	publish := func(change func(*testing.T, *rpmUser)) func(*testing.T, *rpmUser) {
		return func(t *testing.T, u *rpmUser) { change(t, u); u.Publish() }
	}
	kmod := func(change func(*testing.T, *packtest.Package)) func(*testing.T, *rpmUser) {
		return publish(func(t *testing.T, u *rpmUser) { change(t, u.Find("kmod")) })
	}
	replace := func(name, text string) func(*testing.T, *rpmUser) {
		return func(_ *testing.T, u *rpmUser) {
			u.Change = func(files []repotest.File) []repotest.File {
				for i, f := range files {
					if strings.HasSuffix(f.Name, name) {
						files[i].Body = text
					}
				}
				return files
			}
			u.PushBase()
		}
	}
	for what, c := range map[string]struct {
		id      string
		prepare func(*testing.T, *rpmUser)
		args    string
		code    int
		parts   []string
	}{
		"mirror":        {"rocky9", nil, "--mirror http://127.0.0.1:1/", 4, []string{"127.0.0.1:1"}},
		"mirror 500":    {"rocky9", func(_ *testing.T, u *rpmUser) { u.Fault(refuse(500, "repomd.xml")) }, "", 4, []string{"500", "baseos"}},
		"package 404":   {"rocky9", func(_ *testing.T, u *rpmUser) { u.Fault(refuse(404, "/kmod-28")) }, "", 4, []string{"404", "kmod"}},
		"wrong key":     {"rocky9", kmod(func(t *testing.T, p *packtest.Package) { p.Signer = repotest.Key("imagetest", 0) }), "", 5, []string{"package kmod 28-9.el9", "no trusted signature"}},
		"unsigned":      {"rocky9", kmod(func(_ *testing.T, p *packtest.Package) { p.Unsigned = true }), "", 5, []string{"package kmod 28-9.el9", "it is not signed"}},
		"expired key":   {"rocky9", expire, "", 5, []string{"package kmod 28-9.el9", "unusable key", "expired"}},
		"index":         {"opensuse-leap15.6", publish(func(t *testing.T, u *rpmUser) { u.Signer = repotest.Key("imagetest", 0) }), "", 5, []string{"repo-oss", "no trusted signature"}},
		"expired index": {"opensuse-leap15.6", expireIndex, "", 5, []string{"repo-oss", "expired"}},
		"lying index":   {"rocky9", publish(func(_ *testing.T, u *rpmUser) { u.Lie = true }), "", 5, []string{"baseos", "primary"}},
		"package": {"rocky9", func(_ *testing.T, u *rpmUser) {
			path := u.RPMSystem.Path(*u.Find("make"))
			data := bytes.Clone(u.File(path))
			data[len(data)/2] ^= 1
			u.Put(path, data)
		}, "", 5, []string{"package make", "sha256"}},
		"path escape": {"rocky9", kmod(func(_ *testing.T, p *packtest.Package) {
			p.Files = append(p.Files, repotest.File{Name: "../../etc/passwd", Body: "x"})
		}), "", 5, []string{"package kmod 28-9.el9", "unsafe member", "../../etc/passwd"}},
		"bomb": {"rocky9", kmod(func(_ *testing.T, p *packtest.Package) {
			p.Archive = func(b []byte) []byte { return append(b, make([]byte, 8<<20)...) }
		}), "", 5, []string{"package kmod 28-9.el9", "longer than the files of the header"}},
		"unresolvable": {"rocky9", publish(func(_ *testing.T, u *rpmUser) {
			p := u.Find("glibc-devel")
			p.Requires = append(p.Requires, "libxcrypt-devel >= 4.0.0")
		}), "", 6, []string{"glibc-devel 2.34-100.el9 needs libxcrypt-devel >= 4.0.0", "gcc 11.4.1-3.el9"}},
		"missing package": {"rocky9", publish(func(_ *testing.T, u *rpmUser) { *u.Find("kmod") = *u.Find("make") }), "", 6, []string{"kmod was asked for"}},
		"nothing checked": {"rocky9", replace("dnf.conf", "[main]\ngpgcheck=0\n"), "", 6, []string{"etc/yum.repos.d/rocky.repo:1", "gpgcheck=1"}},
		"no variable":     {"rocky9", replace("rocky.repo", "[x]\nbaseurl=http://localhost/$nosuchvar/\ngpgcheck=1\n"), "", 6, []string{"$nosuchvar", "etc/dnf/vars"}},
		"bad file":        {"rocky9", replace("rocky.repo", "no section\n"), "", 6, []string{"etc/yum.repos.d/rocky.repo:1"}},
		"damaged sqlite":  {"rocky9", replace("rpmdb.sqlite", "SQLite format 3\x00 and no more"), "", 5, []string{"the base's rpm database", "var/lib/rpm/rpmdb.sqlite"}},
		"damaged ndb":     {"opensuse-leap15.6", replace("Packages.db", "rubbish"), "", 5, []string{"the base's rpm database", "usr/lib/sysimage/rpm/Packages.db"}},
		"damaged bdb":     {"centos7", replace("rpm/Packages", "rubbish"), "", 5, []string{"the base's rpm database", "var/lib/rpm/Packages"}},
		"other base":      {"rocky9", replace("usr/lib/os-release", "ID=rocky\nVERSION_ID=8.10\n"), "", 2, []string{"rocky 8.10", "rocky9"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			u := newRPMUser(t, c.id)
			if c.prepare != nil {
				c.prepare(t, u)
			}
			driver := newDriver
			if c.id == "centos7" {
				driver = oldDriver
			}
			out := u.user.Path("dist")
			r := u.matrix(t, fmt.Sprintf("--os %s --driver %s --output oci:%s %s", c.id, driver, out, c.args))
			r.Want(t, c.code, c.parts...)
			assert.Equalf(t, "", r.Stdout, "stdout")
			assert.Errorf(t, assert.Err(os.Stat(out)), "an output was begun")
			if list := leftovers(t, u.Cache); len(list) > 0 {
				t.Errorf("left behind: %q", list)
			}
		})
	}
}

// expired returns a key that was made a year ago.
func expired(lifetime time.Duration) *openpgp.Entity {
	return repotest.KeyAt("expired", time.Now().AddDate(-1, 0, 0), lifetime)
}

func expire(t *testing.T, u *rpmUser) {
	p := u.Find("kmod")
	p.Signer = expired(24 * time.Hour)
	u.Trust(p.Signer)
	u.Publish()
}

// expireIndex signs the index one hour ago, with a key that expired half an hour ago.
func expireIndex(t *testing.T, u *rpmUser) {
	u.Signer = expired(time.Since(time.Now().AddDate(-1, 0, 0)) - 30*time.Minute)
	u.Trust(u.Signer)
	u.Publish()
}

// TestRPMRollback: every command refuses a mirror that serves an old index, and so do later commands;
// --allow-rollback accepts it for one call.
func TestRPMRollback(t *testing.T) {
	t.Parallel()
	u := newRPMUser(t, "rocky9")
	build := "--os rocky9 --driver " + newDriver + " --output oci:" + u.user.Path("dist")
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
	digest := func(tag string) string {
		ref := require.Value(name.ParseReference(repository + ":" + tag))(t)
		d, err := remote.Head(ref)
		if err != nil {
			t.Error(err)
			return tag
		}
		return d.Digest.String()
	}
	if a, b := digest(newDriver+"-rocky9"), digest(newDriver+"-rocky9.4"); a != b {
		t.Errorf("tag %s, alias %s", a, b)
	}
	image := repository + ":" + newDriver + "-rocky9"
	u.Run(t, "verify", image).Want(t, 0)
	if r := u.Run(t, "inspect", "--deep", "-o", "json", image); r.Code != 0 || !strings.Contains(r.Stdout, `"version": "1:4.3-8.el9"`) || strings.Contains(r.Stdout, "gpg-pubkey") {
		t.Errorf("%+v", r)
	}
	r := u.matrix(t, "kernels --os rocky9 -o json")
	r.Want(t, 0)
	for _, release := range []string{imagetest.RPMKernel, imagetest.RPMOldKernel, imagetest.RPMRTKernel} {
		if !strings.Contains(r.Stdout, release) || strings.Contains(r.Stdout, imagetest.RPMOrphanKernel) {
			t.Error(r.Stdout)
		}
	}
	if r := u.matrix(t, target+" --dry-run --kernel latest"); r.Code != 0 || !strings.Contains(r.Stdout, newDriver+"-"+imagetest.RPMKernel+"-rocky9") || !strings.Contains(r.Stdout, `"name": "perl-interpreter"`) {
		t.Errorf("%+v", r)
	}
	u.matrix(t, "check "+target).Want(t, 0)
	if r := u.matrix(t, "plan "+target+" --repository "+repository); r.Code != 0 || !strings.Contains(r.Stderr, "up to date") {
		t.Errorf("%+v", r)
	}
	u.Find("kmod").EVR = "29-1.el9"
	u.Publish()
	if r := u.matrix(t, "plan "+target+" --repository "+repository); r.Code != 0 || !strings.Contains(r.Stdout, "out of date") {
		t.Errorf("%+v", r)
	}
}
