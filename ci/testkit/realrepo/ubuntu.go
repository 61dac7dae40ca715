package realrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const (
	archive  = "archive.ubuntu.example"
	security = "security.ubuntu.example"
)

const ubuntuRelease = `PRETTY_NAME="Ubuntu 24.04.1 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.1 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=noble
LOGO=ubuntu-logo
`

const ubuntuSources = `Types: deb
URIs: http://` + archive + `/ubuntu/
Suites: noble noble-updates noble-backports
Components: main universe restricted multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg

Types: deb
URIs: http://` + security + `/ubuntu/
Suites: noble-security
Components: main universe restricted multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
`

// ubuntu makes Ubuntu 24.04: Debian's compiler and its dependencies, with the packages of Ubuntu's names on
// top; kernels; and a base that is Debian's with another name, sources and keys in a layer on top.
func (o Options) ubuntu(t testing.TB) *System {
	t.Helper()
	index := testfile.Read(t, filepath.Join(o.Debian, "index.json"))
	inputs := []string{recipe, index, o.Headers.release(), fmt.Sprint(ubuntuPackages(), ubuntuKernels()), ubuntuRelease, ubuntuSources}
	dir := keep(t, o.System, inputs, func(dir string) {
		work := t.TempDir()
		layout, pool := filepath.Join(dir, "base"), filepath.Join(dir, "www", archive, "ubuntu", "pool/main/noble")
		tool.Must(t, "skopeo", "--insecure-policy", "copy", "--quiet", "oci:"+o.Debian, "oci:"+layout+":"+o.System)
		tool.Must(t, "umoci", "unpack", "--image", layout+":"+o.System, work+"/debian")
		status := "Dir::State::status=" + work + "/debian/rootfs/var/lib/dpkg/status"
		debs := candidates(t, "install", "--no-install-recommends", "-o", status, "gcc-12", "kmod", "libc6-dev", "libelf1", "make")
		require.NoError(t, os.MkdirAll(pool, 0o755))
		download(t, debs, pool)
		for _, p := range ubuntuPackages() {
			p.build(t, testfile.Tree(t, filepath.Join(work, p.name), p.files), pool)
		}
		buildUbuntuKernels(t, o.Headers, filepath.Join(dir, "www"), work)
		key := NewKey(t, "rsa3072")
		testfile.Write(t, filepath.Join(dir, "key.asc"), string(key.Public))
		for _, suite := range []string{"noble", "noble-updates", "noble-backports", "noble-security"} {
			key.publishSuite(t, filepath.Join(dir, "www", hostOf(suite), "ubuntu"), suite)
		}
		layer := testfile.Tree(t, filepath.Join(work, "layer"), map[string]string{
			"usr/lib/os-release":                            ubuntuRelease,
			"etc/apt/sources.list.d/.wh..wh..opq":           "",
			"etc/apt/sources.list.d/ubuntu.sources":         ubuntuSources,
			"etc/apt/trusted.gpg.d/.wh..wh..opq":            "",
			"usr/share/keyrings/ubuntu-archive-keyring.gpg": key.gpg(t, "--export"),
		})
		tool.Must(t, "tar", "--owner=0", "--group=0", "-C", layer, "-cf", layer+".tar", "usr", "etc")
		addLayer(t, layout, o.System, layer+".tar")
	})
	return &System{Dir: dir, Kernel: ubuntuKernels()[0].release}
}

func hostOf(suite string) string {
	if suite == "noble-security" {
		return security
	}
	return archive
}

// publishScript writes the lists of a suite, whose packages are all in main, and InRelease. Like that of
// Ubuntu's archive, Release names plain and compressed lists, and only the compressed ones exist.
const publishScript = `cd "$1"; suite=$2; mkdir -p pool/main/$suite
for component in main restricted universe multiverse; do
  list=dists/$suite/$component/binary-amd64; mkdir -p $list; : >$list/Packages
  [ $component != main ] || apt-ftparchive packages pool/main/$suite >$list/Packages
  gzip -9nk $list/Packages; xz -k $list/Packages
done
r=APT::FTPArchive::Release
apt-ftparchive -o $r::Origin=Ubuntu -o $r::Label=Ubuntu -o $r::Suite=$suite -o $r::Codename=noble -o $r::Architectures=amd64 \
  -o $r::Components="main restricted universe multiverse" release dists/$suite >dists/$suite.release
mv dists/$suite.release dists/$suite/Release
rm dists/$suite/*/binary-amd64/Packages`

func (k *Key) publishSuite(t testing.TB, root, suite string) {
	t.Helper()
	tool.Must(t, "sh", "-ec", publishScript, "sh", testfile.Write(t, root+"/", ""), suite)
	dist := filepath.Join(root, "dists", suite)
	k.gpg(t, "--clearsign", "--digest-algo", "sha512", "--output", filepath.Join(dist, "InRelease"), filepath.Join(dist, "Release"))
}

// debPackage is a Debian package to be made.
type debPackage struct {
	name, version, arch, depends string
	files                        map[string]string // as in testfile.Write
}

// ubuntuPackages returns the packages that have other names in Debian 12. They depend on those.
func ubuntuPackages() []debPackage {
	return []debPackage{
		{
			name: "gcc-13", version: "13.3.0-6ubuntu2~24.04", arch: "amd64", depends: "gcc-12",
			files: map[string]string{"usr/bin/gcc-13": "-> gcc-12"},
		},
		{name: "libelf1t64", version: "0.190-1.1ubuntu0.1", arch: "amd64", depends: "libelf1"},
	}
}

// build packs a tree into a folder.
func (p debPackage) build(t testing.TB, tree, out string) {
	t.Helper()
	text := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: tests <tests@builder.example>\n", p.name, p.version, p.arch)
	if p.depends != "" {
		text += "Depends: " + p.depends + "\n"
	}
	testfile.Write(t, filepath.Join(tree, "DEBIAN", "control"), text+"Description: "+p.name+" for tests\n")
	tool.Must(t, "dpkg-deb", "--root-owner-group", "-Zzstd", "-z1", "--build", tree, testfile.Write(t, out+"/", ""))
}
