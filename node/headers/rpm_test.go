package headers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

var rockyTree = []string{
	"usr/src/kernels/" + rockyRelease + "/.config",
	"usr/src/kernels/" + rockyRelease + "/Makefile",
	"usr/src/kernels/" + rockyRelease + "/arch/x86/boot -> ../../boot",
	"usr/src/kernels/" + rockyRelease + "/include/config/kernel.release",
	"usr/src/kernels/" + rockyRelease + "/include/generated/utsrelease.h",
	"usr/src/kernels/" + rockyRelease + "/scripts/basic/fixdep",
}

const signedRepo = "[test]\nname=Test\nbaseurl=%s/el/$releasever/$basearch/\nrepo_gpgcheck=1\ngpgcheck=0\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-test\n"

func TestFetchRPM(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.rpmRepository("/el/9.4/x86_64", signer(), kernelDevel(rockyRelease), kernelDevel("5.14.0-427.el9.x86_64"))
	a.server.Start()
	i := newRPMImage(t, strings.ReplaceAll(signedRepo, "%s", a.server.URL))
	for range 2 {
		assert.Same(t, []string{"kernel-devel 5.14.0-427.13.1.el9_4"}, require.Value(i.fetchRelease(rockyRelease))(t))
		assert.Same(t, rockyTree, i.list())
	}
	if fi, err := os.Stat(filepath.Join(i.into, "usr/src/kernels", rockyRelease, "scripts/basic/fixdep")); err != nil || fi.Mode() != 0o755 || fi.ModTime().Unix() != 1700000000 {
		t.Errorf("fixdep: %v, %v", fi, err)
	}
	assert.Equalf(t, false, strings.Contains(i.said.String(), "warning"), "it said:\n%s", i.said.String())
	assert.Equalf(t, 1, a.count("/el/9.4/x86_64/Packages/kernel-devel-5.14.0-427.13.1.el9_4.x86_64.rpm"), "downloaded")
}

// The repositories of the kernel's minor version are tried before those of the system; a value of the
// administrator comes first.
func TestReleaseVersions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, at, env, vars, want string }{
		{"its minor version", "/el/9.4/x86_64", "", "", "9.4"},
		{"the major version", "/el/9/x86_64", "", "", "9.4 9"},
		{"the environment", "/el/9.4-site/x86_64", "9.4-site", "", "9.4-site"},
		{"a file", "/el/9-vault/x86_64", "", "9-vault", "9-vault"},
		{"a file that is wrong", "/el/9/x86_64", "", "8-vault", "8-vault 9.4 9"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t)
			a.rpmRepository(test.at, signer(), kernelDevel(rockyRelease))
			a.server.Start()
			i := newRPMImage(t, strings.ReplaceAll(signedRepo, "%s", a.server.URL))
			i.env["DNF_RELEASEVER"] = test.env
			if test.vars != "" {
				i.write("etc/dnf/vars/releasever", test.vars+"\n")
			}
			require.Value(i.fetchRelease(rockyRelease))(t)
			var asked []string
			for _, v := range []string{"9.4-site", "9-vault", "8-vault", "9.4", "9"} {
				if a.count("/el/"+v+"/x86_64/repodata/repomd.xml") > 0 {
					asked = append(asked, v)
				}
			}
			assert.Equalf(t, test.want, strings.Join(asked, " "), "asked for")
		})
	}
}

// TestLeftOutRPM: a repository that cannot be used does not hide the others, whatever is wrong with it.
func TestLeftOutRPM(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.rpmRepository("/el/9.4/x86_64", signer(), kernelDevel(rockyRelease))
	a.rpmRepository("/forged", repotest.Key("stranger", 0), kernelDevel(rockyRelease))
	a.server.Start()
	bad := "[variable]\nbaseurl=%s/$nonsense/\nrepo_gpgcheck=1\n[unsigned]\nbaseurl=%s/el/9.4/x86_64/?\ngpgcheck=0\n" +
		"[forged]\nbaseurl=%s/forged/\nrepo_gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-test\n[gone]\nbaseurl=http://127.0.0.1:1/\nrepo_gpgcheck=1\n"
	i := newRPMImage(t, strings.ReplaceAll(bad+signedRepo, "%s", a.server.URL))
	assert.Equal(t, 1, len(require.Value(i.fetchRelease(rockyRelease))(t)))
	for _, part := range []string{"$nonsense", "source unsigned", "no trusted signature", "127.0.0.1:1"} {
		assert.Contains(t, i.said.String(), part)
	}
	i = newRPMImage(t, strings.ReplaceAll(bad, "%s", a.server.URL))
	e := require.ErrorAs[*UnavailableError](t, assert.Err(i.fetchRelease(rockyRelease)))
	assert.Equal(t, 0, len(e.Looked))
	assert.Equal(t, 4, len(e.Failed))
	assert.ErrorContains(t, e, "none of the package repositories can be used")
}

// TestListLeftOutRPM: behind a good repomd.xml a list that cannot be read, whatever is wrong with it, does not hide
// other repositories.
func TestListLeftOutRPM(t *testing.T) {
	t.Parallel()
	for name, spoil := range spoilt {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t)
			a.rpmRepository("/bad", signer(), kernelDevel(rockyRelease), kernelDevel("5.14.0-427.el9.x86_64"))
			a.spoil("primary.xml", spoil)
			a.rpmRepository("/el/9.4/x86_64", signer(), kernelDevel(rockyRelease))
			a.server.Start()
			bad := "[bad]\nbaseurl=%s/bad/\nrepo_gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-test\n"
			i := newRPMImage(t, strings.ReplaceAll(bad+signedRepo, "%s", a.server.URL))
			assert.Equal(t, 1, len(require.Value(i.fetchRelease(rockyRelease))(t)))
			assert.Contains(t, i.said.String(), "bad ("+a.server.URL+"/bad): list primary: ")
			i = newRPMImage(t, strings.ReplaceAll(bad, "%s", a.server.URL))
			e := require.ErrorAs[*UnavailableError](t, assert.Err(i.fetchRelease(rockyRelease)))
			assert.Equal(t, 0, len(e.Looked))
			assert.ErrorContains(t, e, "none of the package repositories can be used", "list primary: ")
		})
	}
}

// Repositories of an old minor version are configured but switched off.
func TestExtraRepositories(t *testing.T) {
	t.Parallel()
	const release = "3.10.0-1062.18.1.el7.x86_64"
	a := newArchive(t)
	a.rpmRepository("/7.7.1908/updates", signer(), kernelDevel(release))
	a.server.Start()
	i := newRPMImage(t, "")
	i.write("etc/os-release", "ID=\"centos\"\nVERSION_ID=\"7\"\n")
	i.write("etc/yum.repos.d/CentOS-Vault.repo", "[C7.6.1810-updates]\nbaseurl="+a.server.URL+"/7.6.1810/updates\nenabled=0\nrepo_gpgcheck=1\n"+
		"[C7.7.1908-updates]\nbaseurl="+a.server.URL+"/7.7.1908/updates\nenabled=0\nrepo_gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-test\n")
	require.Value(i.fetchRelease(release))(t)
	assert.Equalf(t, 0, a.count("/7.6.1810/updates/repodata/repomd.xml"), "another minor version was asked")
}

func TestSignedPackages(t *testing.T) {
	t.Parallel()
	stranger := repotest.KeyAt("stranger", time.Now().AddDate(0, 0, -2), 0)
	const repo = "[test]\nbaseurl=%s/el/\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-test\n"
	for _, test := range []struct {
		name  string
		key   *openpgp.Entity
		other string // a key in another file, which the source names instead
		want  error
	}{
		{"right key", signer(), "", nil},
		{"right key elsewhere", stranger, "etc/site/key", nil},
		{"no signature", nil, "", rpmfile.ErrSignature},
		{"another key", stranger, "", rpmfile.ErrSignature},
		{"a key of the image that is not the source's", signer(), "etc/site/key", rpmfile.ErrSignature},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t)
			p := kernelDevel(rockyRelease)
			p.Signer, p.Unsigned = test.key, test.key == nil
			a.rpmRepository("/el", nil, p)
			a.server.Start()
			text := strings.ReplaceAll(repo, "%s", a.server.URL)
			i := newRPMImage(t, text)
			if test.other != "" {
				i.write(test.other, repotest.Public(t, stranger))
				i.write("etc/yum.repos.d/test.repo", strings.ReplaceAll(text, "etc/pki/rpm-gpg/RPM-GPG-KEY-test", test.other))
			}
			_, err := i.fetchRelease(rockyRelease)
			if !errors.Is(err, test.want) || test.want != nil && len(i.list()) > 0 {
				t.Errorf("%v; want %v; left %q", err, test.want, i.list())
			}
		})
	}
}

func TestUnavailableRPM(t *testing.T) {
	t.Parallel()
	var all []repotest.RPM
	for _, r := range []string{"5.14.0-427.el9.x86_64", "5.14.0-503.11.1.el9_5.x86_64", "5.14.0-427.20.1.el9_4.x86_64"} {
		all = append(all, kernelDevel(r))
	}
	a := newArchive(t)
	a.rpmRepository("/el/9/x86_64", signer(), all...)
	a.server.Start()
	i := newRPMImage(t, strings.ReplaceAll(signedRepo, "%s", a.server.URL))
	e := require.ErrorAs[*UnavailableError](t, assert.Err(i.fetchRelease(rockyRelease)))
	want := &UnavailableError{
		Release: rockyRelease, Package: "kernel-devel-uname-r = " + rockyRelease, Folder: "/etc/yum.repos.d",
		Looked: []string{"test (" + a.server.URL + "/el/9/x86_64)"},
		Newest: "5.14.0-503.11.1.el9_5.x86_64",
		Failed: e.Failed,
	}
	if diff := cmp.Diff(want, e); diff != "" || len(e.Failed) != 1 || !strings.Contains(e.Failed[0], "/el/9.4/") {
		t.Error(diff, e.Failed)
	}
	assert.ErrorContains(t, e, "there is no kernel-devel-uname-r = "+rockyRelease, "could not be used", "/etc/yum.repos.d", "vaults")
}

func TestUnavailableRPMBeforeAsking(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, repo, osRelease, release, want string }{
		{"no repository", "", "", rockyRelease, "no package repository is configured"},
		{"only disabled ones", "[a]\nbaseurl=http://127.0.0.1:1/\nenabled=0\n", "", rockyRelease, "no package repository is configured"},
		{"bad file", "[a\n", "", rockyRelease, "test.repo:1"},
		{"not reachable", "[a]\nbaseurl=http://127.0.0.1:1/\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-test\n", "", rockyRelease, "none of the package repositories can be used"},
		{"no release", "", "", "x y", "cannot be the name of a kernel of rocky9"},
		{"flatcar", "", "ID=flatcar\nVERSION_ID=4081.2.0\n", "6.6.54-flatcar", "in /lib/modules/6.6.54-flatcar/build"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			i := newRPMImage(t, test.repo)
			if test.osRelease != "" {
				i.write("etc/os-release", test.osRelease)
			}
			assert.Contains(t, require.ErrorAs[*UnavailableError](t, assert.Err(i.fetchRelease(test.release))).Error(), test.want)
		})
	}
}
