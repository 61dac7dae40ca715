package headers

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

const rockyRelease = "5.14.0-427.13.1.el9_4.x86_64"

// rpmRepository puts packages and their metadata below a path of an archive. A key signs the list
// of packages.
func (a *archive) rpmRepository(at string, key *openpgp.Entity, packages ...repotest.RPM) {
	r := repotest.NewRepository(a.t, "", at, func(path string, data []byte) { a.files[path] = data })
	r.Packages, r.Signer, r.Signed = packages, key, key != nil
	r.Publish()
}

// newRPMImage is a root of Rocky Linux 9.4 with the key of the tests.
func newRPMImage(t testing.TB, repo string) *image {
	t.Helper()
	i := &image{t: t, dir: t.TempDir(), into: filepath.Join(t.TempDir(), "headers"), env: map[string]string{}}
	i.write("etc/os-release", "ID=\"rocky\"\nVERSION_ID=\"9.4\"\n")
	i.write("etc/pki/rpm-gpg/RPM-GPG-KEY-test", repotest.Public(t, signer()))
	i.write("etc/yum.repos.d/test.repo", repo)
	return i
}

func (i *image) fetchRelease(release string) ([]string, error) {
	o := i.options()
	o.Release = release
	return Fetch(i.t.Context(), o)
}

// kernelDevel is the headers package of Red Hat's kernels; the link to its tree is in the package of the
// kernel.
func kernelDevel(release string) repotest.RPM {
	version := strings.TrimSuffix(release, ".x86_64")
	src := "usr/src/kernels/" + release + "/"
	return repotest.RPM{
		Name: "kernel-devel", EVR: version, Unsigned: true, Provides: []string{"kernel-devel-uname-r = " + release},
		Requires: []string{"findutils", "/usr/bin/perl", "gcc", "elfutils-libelf-devel"},
		Files: []repotest.File{
			{Name: src + ".config", Body: "CONFIG_X86=y\n"},
			{Name: src + "Makefile", Body: "all:\n"},
			{Name: src + "include/config/kernel.release", Body: release + "\n"},
			{Name: src + "include/generated/utsrelease.h", Body: "#define UTS_RELEASE \"" + release + "\"\n"},
			{Name: src + "scripts/basic/fixdep", Body: "fixdep", Mode: 0o755},
			{Name: src + "arch/x86/boot", Link: "../../boot"},
			{Name: "usr/share/doc/kernel-devel/x", Body: "text"},
		},
	}
}
