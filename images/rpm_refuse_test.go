package images

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/packtest"
	"github.com/driver-container/driver-container/ci/repotest"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
)

// expiredKey was good for a day, a year ago.
func expiredKey() *openpgp.Entity {
	return repotest.KeyAt("expired", time.Now().AddDate(-1, 0, 0), 24*time.Hour)
}

// TestRPMHostile: packages that their index vouches for, and that are refused all the same.
func TestRPMHostile(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(*testing.T, *rpmRig, *packtest.Package)
		want   error
		why    string
	}{
		"wrong key": {func(t *testing.T, _ *rpmRig, p *packtest.Package) { p.Signer = repotest.Key("imagetest", 0) }, rpmfile.ErrSignature, "not among"},
		"unsigned":  {func(_ *testing.T, _ *rpmRig, p *packtest.Package) { p.Unsigned = true }, rpmfile.ErrSignature, "not signed"},
		"key of another source": {func(t *testing.T, r *rpmRig, p *packtest.Package) { // which the base trusts, but not for this one
			other := repotest.Key("imagetest", 0)
			r.Files = append(r.Files, repotest.File{Name: "etc/pki/rpm-gpg/RPM-GPG-KEY-other", Body: repotest.Public(t, other)})
			r.PushBase()
			p.Signer = other
		}, rpmfile.ErrSignature, "not for this package"},
		"expired key": {func(t *testing.T, r *rpmRig, p *packtest.Package) {
			p.Signer = expiredKey()
			r.Trust(p.Signer)
		}, rpmfile.ErrKey, "expired"},
		"path escape": {func(_ *testing.T, _ *rpmRig, p *packtest.Package) {
			p.Files = append(p.Files, repotest.File{Name: "../../etc/passwd", Body: "x"})
		}, rpmfile.ErrUnsafePath, "../../etc/passwd"},
		"bomb": {func(_ *testing.T, _ *rpmRig, p *packtest.Package) {
			p.Archive = func(b []byte) []byte { return append(b, make([]byte, 8<<20)...) }
		}, rpmfile.ErrFormat, "longer than the files of the header"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, "rocky9")
			c.change(t, r, r.Find("kmod"))
			r.Publish()
			_, err := r.b.Build(t.Context(), r.plan(t, recipe.Options{}))
			assert.ErrorIs(t, err, c.want)
			assert.ErrorContains(t, err, "packages layer: package kmod 28-9.el9: ", c.why)
		})
	}
}

// TestRPMKeyExpiredSince: what was signed while the key was good still counts.
func TestRPMKeyExpiredSince(t *testing.T) {
	t.Parallel()
	r := newRPMRig(t, "rocky9")
	p := r.Find("kmod")
	p.Signer, p.Signed = expiredKey(), time.Now().AddDate(-1, 0, 0).Add(time.Hour)
	r.Trust(p.Signer)
	r.Publish()
	r.build(t, recipe.Options{})
}

// TestRPMPlanRefused: repositories and bases that no plan is made from.
func TestRPMPlanRefused(t *testing.T) {
	t.Parallel()
	unchecked := func(_ *testing.T, r *rpmRig) {
		for i, f := range r.Files {
			if strings.HasSuffix(f.Name, "dnf.conf") {
				r.Files[i].Body = "[main]\ngpgcheck=0\n"
			}
		}
		r.PushBase()
	}
	damaged := func(name string, change func(string) string) func(*testing.T, *rpmRig) {
		return func(_ *testing.T, r *rpmRig) {
			r.Change = func(files []repotest.File) []repotest.File {
				for i, f := range files {
					if strings.HasSuffix(f.Name, name) {
						files[i].Body = change(f.Body)
					}
				}
				return files
			}
			r.PushBase()
		}
	}
	without := func(name string) func([]repotest.File) []repotest.File {
		return func(files []repotest.File) []repotest.File {
			return slices.DeleteFunc(files, func(f repotest.File) bool { return f.Name == name })
		}
	}
	half := func(s string) string { return s[:len(s)/2] }
	for what, c := range map[string]struct {
		id     string
		change func(*testing.T, *rpmRig)
		want   error
		why    []string
	}{
		"nothing checked":   {"rocky9", unchecked, rpm.ErrSources, []string{"rocky.repo:1", "baseos", "gpgcheck"}},
		"foreign signature": {"opensuse-leap15.6", func(t *testing.T, r *rpmRig) { r.Signer = repotest.Key("imagetest", 0); r.Publish() }, rpm.ErrSignature, []string{"repo-oss", "not trusted"}},
		"no signature": {"opensuse-leap15.6", func(_ *testing.T, r *rpmRig) {
			r.Signed = false
			r.Fault(refusePart(404, "repomd.xml.asc"))
		}, rpm.ErrSignature, []string{"no repomd.xml.asc"}},
		"lying index": {"rocky9", func(_ *testing.T, r *rpmRig) { r.Lie = true; r.Publish() }, rpm.ErrIndex, []string{"list primary"}},
		"no keys": {"rocky9", func(_ *testing.T, r *rpmRig) {
			r.Imported, r.Change = nil, without(imagetest.RPMKey)
			r.PushBase()
		}, rpm.ErrSources, []string{imagetest.RPMKey + " does not exist in the base"}},
		"no database": {"rocky9", func(_ *testing.T, r *rpmRig) { r.Change = without("var/lib/rpm/rpmdb.sqlite"); r.PushBase() }, packages.ErrBase, []string{"no rpmdb.sqlite"}},
		"unresolvable": {"rocky9", func(_ *testing.T, r *rpmRig) {
			p := r.Find("cpp")
			p.Requires = append(p.Requires, "libnowhere.so.1()(64bit)")
			r.Publish()
		}, nil, []string{"cpp 11.4.1-3.el9 needs libnowhere.so.1()(64bit)", "gcc"}},
		"missing": {"rocky9", func(_ *testing.T, r *rpmRig) { *r.Find("kmod") = *r.Find("make"); r.Publish() }, nil, []string{"kmod was asked for"}},
		"sqlite":  {"rocky9", damaged("rpmdb.sqlite", half), rpmdb.ErrFormat, []string{"the base's rpm database"}},
		"ndb":     {"opensuse-leap15.6", damaged("Packages.db", half), rpmdb.ErrFormat, []string{"the base's rpm database"}},
		"bdb":     {"centos7", damaged("rpm/Packages", half), rpmdb.ErrFormat, []string{"the base's rpm database"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, c.id)
			c.change(t, r)
			_, err := r.b.Plan(t.Context(), r.target(t), recipe.Options{})
			assert.Equalf(t, false, c.want != nil && !errors.Is(err, c.want), "%v, want %v", err, c.want)
			assert.ErrorContains(t, err, c.why...)
			var un *rpm.UnresolvableError
			assert.Equalf(t, false, (what == "unresolvable" || what == "missing") && !errors.As(err, &un), "%T", err)
		})
	}
}

// TestRPMAllowExpired: archives of systems out of support get no new signatures.
func TestRPMAllowExpired(t *testing.T) {
	t.Parallel()
	r := newRPMRig(t, "opensuse-leap15.6")
	born := time.Now().AddDate(-1, 0, 0)
	key := repotest.KeyAt("expired", born, time.Since(born)-30*time.Minute)
	r.Signer = key // signs as of an hour ago
	r.Trust(key)
	r.Publish()
	target := r.target(t)
	assert.ErrorIs(t, assert.Err(r.b.Plan(t.Context(), target, recipe.Options{})), rpm.ErrExpired)
	target.System.AllowExpired = true
	if _, err := r.b.Plan(t.Context(), target, recipe.Options{}); err != nil {
		t.Error(err)
	}
}

// refusePart answers requests for paths that contain part.
func refusePart(code int, part string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		w.WriteHeader(code)
		return true
	}
}
