package realrepo

import "fmt"

// system is the data in which the systems of the rpm family differ whose repositories can be made: one of RHEL's
// kind, one of SUSE's. The tests of distros/rpm have the other mechanisms: Berkeley DB, modules, mirror lists.
type system struct {
	id, dist string // "rocky9", the end of releases: ".el9"
	payload  string // compression and level, as rpm writes them
	suse     bool   // SUSE's names of packages, folders in the root, and database
	build    string // a kernel package's release, of a number that counts them
	release  string // the package with the system's name, keys and repositories
	version  string // its version, which is $releasever
	key      string // path of the key in the base
	files    map[string]string
	style    Repository
	repos    []string // their addresses in the base's files; the first one has the packages of the base, the last one all others
}

const dnfConf = "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\n" +
	"best=True\nskip_if_unavailable=False\ninstall_weak_deps=False\n"

func systems() []system {
	return []system{
		{
			id: "rocky9", dist: ".el9", payload: "w1.zstdio",
			build: "%d.el9_4", release: "rocky-release", version: "9.4", key: "/etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9",
			files: map[string]string{
				"/etc/os-release":          osRelease("rocky", "9.4", "Rocky Linux") + "PLATFORM_ID=\"platform:el9\"\n",
				"/etc/dnf/vars/contentdir": "pub/rocky\n", "/etc/dnf/dnf.conf": dnfConf,
				"/etc/yum.repos.d/rocky.repo": rocky("baseos", "BaseOS", "RPM-GPG-KEY-Rocky-9", 1) +
					rocky("appstream", "AppStream", "RPM-GPG-KEY-Rocky-9", 1),
				"/etc/yum.repos.d/rocky-devel.repo": rocky("devel", "devel", "RPM-GPG-KEY-Rocky-9", 0),
			},
			repos: []string{"download.rocky.example/pub/rocky/9/BaseOS/x86_64/os", "download.rocky.example/pub/rocky/9/AppStream/x86_64/os"},
		},
		{
			id: "opensuse-leap15.6", dist: ".150600", payload: "w0.xzdio", suse: true,
			build: "150600.%d", release: "openSUSE-release", version: "15.6", key: "/usr/lib/rpm/gnupg/keys/gpg-pubkey-opensuse.asc",
			files: map[string]string{
				"/etc/os-release":     osRelease("opensuse-leap", "15.6", "openSUSE Leap"),
				"/etc/zypp/zypp.conf": "[main]\nsolver.onlyRequires = true\nrpm.install.excludedocs = yes\n",
				"/etc/products.d/Leap.prod": `<?xml version="1.0" encoding="UTF-8"?>
<product schemeversion="0"><vendor>openSUSE</vendor><name>Leap</name><version>15.6</version><release>1</release><arch>x86_64</arch>
  <cpeid>cpe:/o:opensuse:leap:15.6</cpeid><register><target/><updates/></register></product>
`,
				"/etc/zypp/repos.d/repo-oss.repo": "[repo-oss]\nname=Main Repository\nenabled=1\nautorefresh=1\n" +
					"baseurl=http://download.opensuse.example/distribution/leap/$releasever/repo/oss/\npath=/\ntype=rpm-md\nkeeppackages=0\n",
			},
			style: Repository{Compression: "xz", Checksum: "sha512", PublishKey: true},
			repos: []string{"download.opensuse.example/distribution/leap/15.6/repo/oss"},
		},
	}
}

// rocky returns the part of a .repo file with one of Rocky Linux's repositories.
func rocky(id, folder, key string, enabled int) string {
	return fmt.Sprintf("[%s]\nname=Rocky Linux $releasever - %s\n"+
		"baseurl=http://download.rocky.example/$contentdir/$releasever/%[2]s/$basearch/os/\n"+
		"gpgcheck=1\nenabled=%d\ncountme=1\nmetadata_expire=6h\ngpgkey=file:///etc/pki/rpm-gpg/%s\n", id, folder, enabled, key)
}

func osRelease(id, version, name string) string {
	return fmt.Sprintf("NAME=%q\nVERSION=%q\nID=%q\nVERSION_ID=%[2]q\nPRETTY_NAME=%q\n", name, version, id, name+" "+version)
}
