package realrepo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
// top, kernels, and a base that is Debian's with another name, sources and keys in a layer on top.
func (o Options) ubuntu(t testing.TB) *System {
	t.Helper()
	index := testfile.Read(t, filepath.Join(o.Debian, "index.json"))
	inputs := []string{recipe, index, fmt.Sprint(ubuntuPackages()), ubuntuRelease, ubuntuSources}
	dir := keep(t, o.System, inputs, func(dir string) {
		work := t.TempDir()
		layout, pool := filepath.Join(dir, "base"), poolOf(dir, "noble")
		tool.Must(t, "skopeo", "--insecure-policy", "copy", "--quiet", "oci:"+o.Debian, "oci:"+layout+":"+o.System)
		tool.Must(t, "umoci", "unpack", "--image", layout+":"+o.System, work+"/debian")
		status := "Dir::State::status=" + work + "/debian/rootfs/var/lib/dpkg/status"
		debs := candidates(t, "install", "--no-install-recommends", "-o", status, "gcc-12", "kmod", "libc6-dev", "libelf1", "make")
		require.NoError(t, os.MkdirAll(pool, 0o755))
		download(t, debs, pool)
		for _, p := range ubuntuPackages() {
			for _, suite := range p.suites {
				p.build(t, poolOf(dir, suite))
			}
		}
		key := NewKey(t, "rsa3072")
		testfile.Write(t, filepath.Join(dir, "key.asc"), string(key.Public))
		for _, suite := range []string{"noble", "noble-updates", "noble-backports", "noble-security"} {
			key.publishSuite(t, poolOf(dir, suite), suite)
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
	return &System{Dir: dir}
}

// poolOf returns the folder of a suite's packages.
func poolOf(dir, suite string) string {
	host := archive
	if suite == "noble-security" {
		host = security
	}
	return filepath.Join(dir, "www", host, "ubuntu/pool/main", suite)
}

// publishScript writes the lists of a suite, whose packages are all in main, and InRelease. Like that of
// Ubuntu's archive, Release names plain and compressed lists, and only the compressed ones exist.
const publishScript = `cd "$1"; suite=$2
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

func (k *Key) publishSuite(t testing.TB, pool, suite string) {
	t.Helper()
	root := filepath.Join(testfile.Write(t, pool+"/", ""), "../../..")
	tool.Must(t, "sh", "-ec", publishScript, "sh", root, suite)
	dist := filepath.Join(root, "dists", suite)
	k.gpg(t, "--clearsign", "--digest-algo", "sha512", "--output", filepath.Join(dist, "InRelease"), filepath.Join(dist, "Release"))
}

// debPackage is a Debian package to be made.
type debPackage struct {
	name, version, arch, depends string
	files                        map[string]string // as in testfile.Write
	suites                       []string          // that have it
}

// ubuntuPackages returns the packages that have other names in Debian 12, and depend on those; and the kernels'
// headers, without files, by their real names: a package of each flavour, one with the files that the flavours of
// a release share, and one that depends on the newest kernel of its kind.
func ubuntuPackages() []debPackage {
	noble, updates, both := []string{"noble"}, []string{"noble-updates"}, []string{"noble-updates", "noble-security"}
	all := []debPackage{
		{
			name: "gcc-13", version: "13.3.0-6ubuntu2~24.04", arch: "amd64", depends: "gcc-12", suites: noble,
			files: map[string]string{"usr/bin/gcc-13": "-> gcc-12"},
		},
		{name: "libelf1t64", version: "0.190-1.1ubuntu0.1", arch: "amd64", depends: "libelf1", suites: noble},
	}
	for _, k := range []struct {
		release, shared, newest string
		suites                  []string
	}{
		{"6.8.0-106-generic", "linux-headers-6.8.0-106", "linux-headers-generic", both},
		{"6.8.0-31-generic", "linux-headers-6.8.0-31", "", noble},
		{"6.8.0-106-lowlatency", "linux-headers-6.8.0-106", "linux-headers-lowlatency", updates},
		{"6.8.0-1052-aws", "linux-aws-headers-6.8.0-1052", "linux-headers-aws", both},
		{"6.8.0-1050-aws", "linux-aws-headers-6.8.0-1050", "", updates},
		{"6.14.0-37-generic", "linux-hwe-6.14-headers-6.14.0-37", "linux-headers-generic-hwe-24.04", updates},
	} {
		version := k.release[:strings.LastIndexByte(k.release, '-')]
		version += "." + version[strings.LastIndexByte(version, '-')+1:] // 6.8.0-106.106
		headers, needs := "linux-headers-"+k.release, k.shared+", libc6 (>= 2.34), libelf1t64 (>= 0.144)"
		all = append(all,
			debPackage{name: headers, version: version, arch: "amd64", depends: needs, suites: k.suites},
			debPackage{name: k.shared, version: version, arch: "all", suites: k.suites})
		if k.newest != "" {
			all = append(all, debPackage{name: k.newest, version: version, arch: "amd64", depends: headers, suites: k.suites})
		}
	}
	return all
}

// build packs the package into a folder.
func (p debPackage) build(t testing.TB, out string) {
	t.Helper()
	text := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: tests <tests@builder.example>\n", p.name, p.version, p.arch)
	if p.depends != "" {
		text += "Depends: " + p.depends + "\n"
	}
	tree := testfile.Tree(t, t.TempDir(), p.files)
	require.NoError(t, os.Chmod(tree, 0o755)) // it becomes the root folder
	testfile.Write(t, filepath.Join(tree, "DEBIAN", "control"), text+"Description: "+p.name+" for tests\n")
	testfile.Write(t, filepath.Join(tree, "DEBIAN", "md5sums"), "") // dpkg --audit asks for it; links have no sums
	tool.Must(t, "dpkg-deb", "--root-owner-group", "-Zzstd", "-z1", "--build", tree, testfile.Write(t, out+"/", ""))
}
