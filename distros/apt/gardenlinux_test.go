package apt

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

// gardenPackages are a kernel of Garden Linux, with its compiler, by their names and dependencies there.
const gardenPackages = `linux-headers-cloud-amd64 6.12.40-1gl0+bp1877; Depends: linux-headers-6.12.40-cloud-amd64 (= 6.12.40-1gl0+bp1877)
linux-headers-amd64 6.12.40-1gl0+bp1877; Depends: linux-headers-6.12.40-amd64 (= 6.12.40-1gl0+bp1877)
linux-headers-6.12.40-cloud-amd64 6.12.40-1gl0+bp1877; Depends: linux-headers-6.12.40-common (= 6.12.40-1gl0+bp1877), linux-kbuild-6.12.40 (>= 6.12.40-1gl0+bp1877), gcc-14
linux-headers-6.12.40-amd64 6.12.40-1gl0+bp1877; Depends: linux-headers-6.12.40-common (= 6.12.40-1gl0+bp1877), linux-kbuild-6.12.40 (>= 6.12.40-1gl0+bp1877), gcc-14
linux-kbuild-6.12.40 6.12.40-1gl0+bp1877; Depends: libc6 (>= 2.34), libelf1t64 (>= 0.144)
gcc-14 14.2.0-19gl1+bp1877; Depends: cpp-14 (= 14.2.0-19gl1+bp1877), libgcc-14-dev, binutils (>= 2.43)
gcc-14 14.2.0-19
cpp-14 14.2.0-19gl1+bp1877
libgcc-14-dev 14.2.0-19gl1+bp1877
binutils 2.44-3
libc6 2.41-6gl0
libc6-dev 2.41-6gl0; Depends: libc6 (= 2.41-6gl0), linux-libc-dev
libelf1t64 0.192-4; Provides: libelf1 (= 0.192-4); Depends: libc6
make 4.4.1-2; Depends: libc6
kmod 34.2-2gl1; Depends: libkmod2, libc6
libkmod2 34.2-2gl1`

// gardenShared are packages for all architectures. Its indexes of an architecture have them too.
const gardenShared = `linux-headers-6.12.40-common 6.12.40-1gl0+bp1877 all
linux-libc-dev 6.12.40-1gl0+bp1877 all`

// TestGardenLinux reads a repository as Garden Linux makes it for each of its releases: a suite with the
// release as its name and no field Suite, signed for a hundred years, with plain indexes that are listed but
// do not exist, and an index of packages for all architectures. Resolved is what apt-get takes of it.
func TestGardenLinux(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	const dir = "/gardenlinux/dists/1877.14"
	a.Head = "Origin: GardenLinux\nCodename: 1877.14\nDescription: Garden Linux\nComponents: main\nArchitectures: all amd64 arm64\n" +
		"Date: Sat, 20 Jun 2026 10:00:00 +0000\nValid-Until: Tue, 20 Jun 2126 10:00:00 +0000\n"
	a.Endings = []string{"", ".gz"}
	a.packages = map[string]string{
		"main/binary-amd64": gardenPackages + "\n" + gardenShared, "main/binary-arm64": gardenShared, "main/binary-all": gardenShared,
	}
	_, digests, _ := strings.Cut(a.release(t, dir), "SHA256:\n") // no others are listed
	a.Files[dir+"/InRelease"] = repotest.Clearsigned(t, a.Head+"SHA256:\n"+digests, testNow.AddDate(0, 0, -10), keys().rsa)
	const keyring = "etc/apt/trusted.gpg.d/keyring.asc"
	root := fstest.MapFS{
		"etc/apt/sources.list": {Data: []byte("deb " + a.URL + "/gardenlinux 1877.14 main\n")},
		keyring:                {Data: public(t, true, keys().rsa)},
	}
	o := a.options(t)
	o.Root, o.Sources = root, require.Value(ReadSources(root))(t)
	x := require.Value(openIndex(t.Context(), o))(t)
	d := require.Value(distros.Lookup("gardenlinux1877"))(t)
	want := append(d.Toolchain("amd64"), d.KernelMeta(d.KernelFlavour("amd64")))
	got := versions(require.Value(x.Resolve(nil, want))(t))
	const resolved = "binutils 2.44-3, cpp-14 14.2.0-19gl1+bp1877, gcc-14 14.2.0-19gl1+bp1877, kmod 34.2-2gl1, libc6 2.41-6gl0, libc6-dev 2.41-6gl0, libelf1t64 0.192-4, " +
		"libgcc-14-dev 14.2.0-19gl1+bp1877, libkmod2 34.2-2gl1, linux-headers-6.12.40-cloud-amd64 6.12.40-1gl0+bp1877, linux-headers-6.12.40-common 6.12.40-1gl0+bp1877, " +
		"linux-headers-cloud-amd64 6.12.40-1gl0+bp1877, linux-kbuild-6.12.40 6.12.40-1gl0+bp1877, linux-libc-dev 6.12.40-1gl0+bp1877, make 4.4.1-2"
	if diff := cmp.Diff(resolved, strings.Join(got, ", ")); diff != "" {
		t.Errorf("resolved: %s", diff)
	}
	delete(root, keyring)
	if _, err := openIndex(t.Context(), o); err == nil {
		t.Error("the repository is read without its key")
	}
}
