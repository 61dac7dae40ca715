package images

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/pgp"
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
		change func(*testing.T, *rpmRig, *repotest.RPM)
		want   error
		why    string
	}{
		"wrong key": {func(t *testing.T, _ *rpmRig, p *repotest.RPM) { p.Signer = repotest.Key("imagetest", 0) }, rpmfile.ErrSignature, "not among"},
		"unsigned":  {func(_ *testing.T, _ *rpmRig, p *repotest.RPM) { p.Unsigned = true }, rpmfile.ErrSignature, "not signed"},
		"key of another source": {func(t *testing.T, r *rpmRig, p *repotest.RPM) { // which the base trusts, but not for this one
			other := repotest.Key("imagetest", 0)
			r.Files = append(r.Files, repotest.File{Name: "etc/pki/rpm-gpg/RPM-GPG-KEY-other", Body: repotest.Public(t, other)})
			r.PushBase()
			p.Signer = other
		}, rpmfile.ErrSignature, "not for this package"},
		"expired key": {func(t *testing.T, r *rpmRig, p *repotest.RPM) {
			p.Signer = expiredKey()
			r.Trust(p.Signer)
		}, rpmfile.ErrKey, "expired"},
		"path escape": {func(_ *testing.T, _ *rpmRig, p *repotest.RPM) {
			p.Files = append(p.Files, repotest.File{Name: "../../etc/passwd", Body: "x"})
		}, rpmfile.ErrUnsafePath, "../../etc/passwd"},
		"bomb": {func(_ *testing.T, _ *rpmRig, p *repotest.RPM) {
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

// TestRPMPlanRefused: repositories and bases that no plan is made from.
func TestRPMPlanRefused(t *testing.T) {
	t.Parallel()
	// base changes the files of the base whose names end so; a text of "" leaves one out.
	base := func(ending string, change func(string) string) func(*rpmRig) {
		return func(r *rpmRig) {
			r.Change = func(files []repotest.File) (kept []repotest.File) {
				for _, f := range files {
					if strings.HasSuffix(f.Name, ending) {
						f.Body = change(f.Body)
					}
					if f.Body != "" || !strings.HasSuffix(f.Name, ending) {
						kept = append(kept, f)
					}
				}
				return kept
			}
			r.PushBase()
		}
	}
	none := func(string) string { return "" }
	for what, c := range map[string]struct {
		change func(*rpmRig)
		want   error
		why    []string
	}{
		"nothing checked": {base("dnf.conf", func(string) string { return "[main]\ngpgcheck=0\n" }), distros.ErrSources, []string{"rocky.repo:1", "baseos", "gpgcheck"}},
		"no keys":         {func(r *rpmRig) { r.Imported = nil; base(imagetest.RPMKey, none)(r) }, distros.ErrSources, []string{imagetest.RPMKey + " does not exist in the base"}},
		"no database":     {base("rpmdb.sqlite", none), packages.ErrBase, []string{"no rpmdb.sqlite"}},
		"half a database": {base("rpmdb.sqlite", func(s string) string { return s[:len(s)/2] }), rpmdb.ErrFormat, []string{"the base's rpm database"}},
		"unresolvable": {func(r *rpmRig) {
			p := r.Find("cpp")
			p.Requires = append(p.Requires, "libnowhere.so.1()(64bit)")
			r.Publish()
		}, nil, []string{"cpp 11.4.1-3.el9 needs libnowhere.so.1()(64bit)", "gcc"}},
		"missing": {func(r *rpmRig) { *r.Find("kmod") = *r.Find("make"); r.Publish() }, nil, []string{"kmod was asked for"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, "rocky9")
			c.change(r)
			err := assert.Err(r.b.Plan(t.Context(), r.target(t), recipe.Options{}))
			assert.ErrorContains(t, err, c.why...)
			_, unresolvable := errors.AsType[*distros.UnresolvableError](err)
			assert.Equalf(t, true, c.want == nil && unresolvable || c.want != nil && errors.Is(err, c.want), "%v", err)
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
	assert.ErrorIs(t, assert.Err(r.b.Plan(t.Context(), target, recipe.Options{})), pgp.ErrExpired)
	target.System.AllowExpired = true
	if _, err := r.b.Plan(t.Context(), target, recipe.Options{}); err != nil {
		t.Error(err)
	}
}
