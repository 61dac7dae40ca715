package images

import (
	"net/http"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestRPMRepositories: the image has the repositories of the matrix, with their keys, in the words of its own
// package manager.
func TestRPMRepositories(t *testing.T) {
	t.Parallel()
	stranger := repotest.Key("imagetest", 0)
	for id, file := range map[string]string{"rocky9": "etc/yum.repos.d/driver-build.repo", "opensuse-leap15.6": "etc/zypp/repos.d/driver-build.repo"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, id)
			extra := r.Extra("/extra")
			extra.Signer = stranger
			extra.Packages = []repotest.RPM{{Name: "kmod", EVR: "99-1", Files: []repotest.File{{Name: "usr/bin/kmod", Body: "of the site", Mode: 0o755}, {Name: "usr/sbin/modprobe", Link: "../bin/kmod"}}}}
			extra.Publish()
			target := r.target(t)
			key := repotest.Public(t, stranger)
			target.System.Repositories = []matrix.Repository{
				{BaseURLs: []string{extra.BaseURL()}, Key: key}, {BaseURLs: []string{r.BaseURL() + "/"}, GPGKeys: []string{"/" + imagetest.RPMKey}},
			}
			_, img := made(t, r.b, target, recipe.Options{})
			tree := treeOf(t, img)
			assert.Equalf(t, "of the site", read(t, tree, "usr/bin/kmod"), "kmod is")
			text := read(t, tree, file)
			for _, want := range []string{"[driver-build-1]\n", "baseurl=" + extra.BaseURL() + "\n", "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-driver-build-1\n", "gpgkey=file:///" + imagetest.RPMKey + "\n", "gpgcheck=1\n"} {
				assert.Contains(t, text, want)
			}
			assert.Equalf(t, key, read(t, tree, "etc/pki/rpm-gpg/RPM-GPG-KEY-driver-build-1"), "another key")
			sources, err := repoconf.ReadSources(tree.OpenFS(), repoconf.Vars{"site": "rocky", "releasever": "9"})
			assert.Equalf(t, false, err != nil || len(sources) != 3, "%+v, %v", sources, err)
			if e, err := tree.Stat(file); err != nil || e.Mode != 0o644 {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
}

// TestDebRepositories is the same for .deb packages.
func TestDebRepositories(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	target := r.target(t, pair("debian12", newDriver))
	own := r.Archives["debian12"]
	key := repotest.Public(t, own.Signer)
	target.System.Repositories = []matrix.Repository{{URIs: []string{r.URL + "/debian12"}, Suites: []string{"bookworm"}, Components: []string{"contrib"}, Key: key}}
	_, img := made(t, r.b, target, recipe.Options{})
	tree := treeOf(t, img)
	if text := read(t, tree, "etc/apt/sources.list.d/driver-build.sources"); !strings.Contains(text, "Components: contrib\n") || !strings.Contains(text, "\n .\n") {
		t.Error(text)
	}
	sources, err := apt.ReadSources(tree.OpenFS())
	if err != nil || len(sources) != 2 {
		t.Fatalf("%+v, %v", sources, err)
	}
	for _, s := range sources {
		if s.Components[0] == "contrib" && (strings.TrimSpace(s.Key) != strings.TrimSpace(key) || s.URIs[0] != r.URL+"/debian12") {
			t.Errorf("%+v", s)
		}
	}
	plain := r.build(t, pair("debian12", newDriver), recipe.Options{})
	assert.Equalf(t, false, digestOf(t, plain) == digestOf(t, img), "the repositories are in no layer")
}

// TestOnlyThese: the base's own repositories are not asked.
func TestOnlyThese(t *testing.T) {
	t.Parallel()
	r := newRPMRig(t, "centos7") // whose own repository is gone
	img := r.build(t, recipe.Options{})
	tree := treeOf(t, img)
	assert.Contains(t, read(t, tree, "etc/yum.repos.d/driver-build.repo"), "baseurl="+r.BaseURL()+"/\n")
	target := r.target(t)
	target.System.ReplaceRepositories = false
	assert.ErrorContains(t, assert.Err(planOne(t, r.b, target, recipe.Options{})), "gone.invalid")
	target.System.ReplaceRepositories, target.System.Repositories = true, nil
	assert.ErrorContains(t, assert.Err(planOne(t, r.b, target, recipe.Options{})), "none is configured")
}

// TestRPMRepositoryLogin: what a repository of the matrix asks for is given when packages are downloaded, and
// nobody sees it.
func TestRPMRepositoryLogin(t *testing.T) {
	t.Parallel()
	r := newRPMRig(t, "rocky9")
	extra := r.Extra("/extra")
	extra.Packages = []repotest.RPM{*r.Find("kmod")}
	extra.Packages[0].EVR = "99-1"
	extra.Publish()
	r.Fault(func(w http.ResponseWriter, req *http.Request) bool {
		user, password, ok := req.BasicAuth()
		if !strings.HasPrefix(req.URL.Path, "/extra/") {
			assert.Equalf(t, false, ok, "%s was asked for with a password", req.URL.Path)
			return false
		}
		if user == "me" && password == "secret" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	target := r.target(t)
	target.System.Repositories = []matrix.Repository{{BaseURLs: []string{strings.Replace(extra.BaseURL(), "://", "://me:secret@", 1)}, GPGKeys: []string{"/" + imagetest.RPMKey}}}
	planned, img := made(t, r.b, target, recipe.Options{})
	if text := read(t, treeOf(t, img), "etc/yum.repos.d/driver-build.repo"); strings.Contains(text, "secret") || !strings.Contains(text, extra.BaseURL()) {
		t.Error(text)
	}
	if text := jsonOf(t, planned.Public()); strings.Contains(text, "secret") {
		t.Error(text)
	}
}

// TestSubscription: a builder with a subscription compiles for a current kernel of RHEL and for one of a
// minor version with extended support, which need one repository each. Nothing of the subscription is in
// the image.
func TestSubscription(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]bool{"extended support off": false, "extended support on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRPMRig(t, "rhel9")
			kernels := map[string]string{imagetest.RPMKernel: "/content/dist/rhel9/9/", imagetest.RPMOldKernel: "/content/eus/rhel9/9.4/"}
			_, err := planOne(t, r.b, r.target(t), recipe.Options{Kernels: []string{imagetest.RPMKernel}})
			assert.ErrorContainsf(t, err, imagetest.RPMKernel, "without a subscription")

			r.b = r.b.with(r.b.Store) // another call
			r.b.Machine = r.Subscribe(on)
			f := runWith(t, r.b, "lib/modules/RELEASE/build/Makefile")
			for kernel, repository := range kernels {
				planned := require.Value(planOne(t, r.b, r.target(t), recipe.Options{Kernels: []string{kernel}}))(t)
				text := jsonOf(t, planned.Public())
				assert.Containsf(t, text, repository, "the headers of %s are from", kernel)
				tree := treeOf(t, require.Value(r.b.Build(t.Context(), planned))(t))
				for _, secret := range []string{"run/secrets/redhat.repo", "etc/yum.repos.d/redhat.repo", "etc/pki/entitlement", "etc/rhsm"} {
					assert.Equalf(t, false, tree.Exists(secret), "the image has /%s", secret)
				}
				assert.Equalf(t, false, strings.Contains(text, "PRIVATE KEY"), "the recipe has the key")
			}
			assert.Equal(t, int32(len(kernels)), f.runs.Load())
		})
	}
}
