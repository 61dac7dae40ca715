package rpmrepo

import "fmt"

// kind is the format of a system's rpm database.
type kind string

const (
	sqlite kind = "sqlite"
	ndb    kind = "ndb"
	bdb    kind = "bdb"
)

// system is the data in which the systems differ whose repositories can be made.
type system struct {
	id         string // "rocky9"
	dist       string // end of releases: ".el9"
	payload    string // compression and level, as rpm writes them
	oldSigns   bool   // header and payload are signed as by rpm 3
	suse       bool   // SUSE's names of packages
	gcc        string // version of SUSE's compiler, in the names of its packages and programs
	merged     bool   // SUSE's root has links to usr/bin and its like
	stream     bool   // kernels have no minor version in their names
	azure      bool   // Azure Linux's names of kernels, and a lib64 that is a link to lib
	database   kind
	dbPath     string
	osRelease  string
	product    string // the product's file, which zypper looks for
	release    string // the package with the system's os-release
	version    string // its version, which is $releasever
	key        string // path of the key in the base
	repos      []repo
	files      map[string]string // further files of the release package: path -> text
	createrepo []string
}

// repo is a repository of a system.
type repo struct {
	id      string
	url     string // its address in the base's files; with a mirror list, the mirror's address
	parts   []part // the software in it
	signed  bool   // repomd.xml has a signature
	modular bool
	mirrors string // address of the mirror list, if it has one
	// metalink is the address of a list of mirrors with the checksum of repomd.xml.
	metalink string
	file     string // in the base: "etc/yum.repos.d/rocky.repo"
	text     string
}

// part is a part of the software, for systems with more than one repository.
type part int

const (
	core part = iota // libraries, shell, the packages of a base
	application
)

// Systems lists the names that Make accepts.
func Systems() []string {
	var ids []string
	for _, s := range systems() {
		ids = append(ids, s.id)
	}
	return ids
}

func lookup(id string) (system, error) {
	for _, s := range systems() {
		if s.id == id {
			return s, nil
		}
	}
	return system{}, fmt.Errorf("no rpm repository of %q can be made: known are %v", id, Systems())
}

func systems() []system {
	all := []part{core, application}
	return append(recent(), []system{
		{
			id: "rocky9", dist: ".el9", payload: "w1.zstdio", database: sqlite, dbPath: "/var/lib/rpm",
			osRelease: "NAME=\"Rocky Linux\"\nVERSION=\"9.4 (Blue Onyx)\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\nPLATFORM_ID=\"platform:el9\"\nPRETTY_NAME=\"Rocky Linux 9.4 (Blue Onyx)\"\n",
			release:   "rocky-release", version: "9.4", key: "etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9",
			files: map[string]string{"etc/dnf/vars/contentdir": "pub/rocky\n", "etc/dnf/dnf.conf": dnfConf},
			repos: []repo{
				{id: "baseos", url: "http://download.rocky.example/pub/rocky/9/BaseOS/x86_64/os", parts: []part{core}, file: "etc/yum.repos.d/rocky.repo",
					text: "[baseos]\nname=Rocky Linux $releasever - BaseOS\nbaseurl=http://download.rocky.example/$contentdir/$releasever/BaseOS/$basearch/os/\ngpgcheck=1\nenabled=1\ncountme=1\nmetadata_expire=6h\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9\n"},
				{id: "appstream", url: "http://download.rocky.example/pub/rocky/9/AppStream/x86_64/os", parts: []part{application}, file: "etc/yum.repos.d/rocky.repo",
					text: "[appstream]\nname=Rocky Linux $releasever - AppStream\nbaseurl=http://download.rocky.example/$contentdir/$releasever/AppStream/$basearch/os/\ngpgcheck=1\nenabled=1\ncountme=1\nmetadata_expire=6h\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9\n"},
				{file: "etc/yum.repos.d/rocky-devel.repo",
					text: "[devel]\nname=Rocky Linux $releasever - Devel WARNING! FOR BUILDROOT USE ONLY!\nbaseurl=http://download.rocky.example/$contentdir/$releasever/devel/$basearch/os/\ngpgcheck=1\nenabled=0\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9\n"},
			},
			createrepo: []string{"--compress-type=gz", "--no-database"},
		},
		{
			id: "rocky8", dist: ".el8", payload: "w0.xzdio", database: bdb, dbPath: "/var/lib/rpm",
			osRelease: "NAME=\"Rocky Linux\"\nVERSION=\"8.10 (Green Obsidian)\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"8.10\"\nPLATFORM_ID=\"platform:el8\"\nPRETTY_NAME=\"Rocky Linux 8.10 (Green Obsidian)\"\n",
			release:   "rocky-release", version: "8.10", key: "etc/pki/rpm-gpg/RPM-GPG-KEY-rockyofficial",
			files: map[string]string{"etc/dnf/vars/contentdir": "pub/rocky\n", "etc/dnf/dnf.conf": dnfConf},
			repos: []repo{
				{id: "baseos", url: "http://download.rocky.example/pub/rocky/8/BaseOS/x86_64/os", parts: []part{core}, file: "etc/yum.repos.d/Rocky-BaseOS.repo",
					text: "[baseos]\nname=Rocky Linux $releasever - BaseOS\nbaseurl=http://download.rocky.example/$contentdir/$releasever/BaseOS/$basearch/os/\ngpgcheck=1\nenabled=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-rockyofficial\n"},
				{id: "appstream", url: "http://download.rocky.example/pub/rocky/8/AppStream/x86_64/os", parts: []part{application}, modular: true, file: "etc/yum.repos.d/Rocky-AppStream.repo",
					text: "[appstream]\nname=Rocky Linux $releasever - AppStream\nbaseurl=http://download.rocky.example/$contentdir/$releasever/AppStream/$basearch/os/\ngpgcheck=1\nenabled=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-rockyofficial\n"},
			},
			createrepo: []string{"--compress-type=gz", "--no-database"},
		},
		{
			id: "centos7", dist: ".el7", payload: "w0.xzdio", oldSigns: true, database: bdb, dbPath: "/var/lib/rpm",
			osRelease: "NAME=\"CentOS Linux\"\nVERSION=\"7 (Core)\"\nID=\"centos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"7\"\nPRETTY_NAME=\"CentOS Linux 7 (Core)\"\nCENTOS_MANTISBT_PROJECT=\"CentOS-7\"\n",
			release:   "centos-release", version: "7", key: "etc/pki/rpm-gpg/RPM-GPG-KEY-CentOS-7",
			files: map[string]string{"etc/yum/vars/infra": "container\n", "etc/yum.conf": "[main]\nkeepcache=0\nobsoletes=1\ngpgcheck=1\nplugins=1\ninstallonly_limit=5\ndistroverpkg=centos-release\n"},
			repos: []repo{
				{id: "base", url: "http://vault.centos.example/centos/7/os/x86_64", parts: all, file: "etc/yum.repos.d/CentOS-Base.repo",
					text: "[base]\nname=CentOS-$releasever - Base\nbaseurl=http://vault.centos.example/centos/$releasever/os/$basearch/\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-CentOS-7\n"},
			},
			createrepo: []string{"--compress-type=gz", "--database", "--general-compress-type=gz"},
		},
		{
			id: "amzn2023", dist: ".amzn2023", payload: "w1.zstdio", database: sqlite, dbPath: "/var/lib/rpm",
			osRelease: "NAME=\"Amazon Linux\"\nVERSION=\"2023\"\nID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\nPLATFORM_ID=\"platform:al2023\"\nPRETTY_NAME=\"Amazon Linux 2023.6.20241121\"\nVARIANT_ID=\"container\"\n",
			release:   "system-release", version: "2023.6.20241121", key: "etc/pki/rpm-gpg/RPM-GPG-KEY-amazon-linux-2023",
			files: map[string]string{"etc/dnf/vars/awsregion": "default\n", "etc/dnf/vars/awsdomain": "amazon.example\n", "etc/dnf/dnf.conf": dnfConf},
			repos: []repo{
				{id: "amazonlinux", url: "http://cdn.amazon.example/al2023/core/guids/0c7e5b3a/x86_64", parts: all, file: "etc/yum.repos.d/amazonlinux.repo",
					mirrors: "http://cdn.amazon.example/al2023/core/mirrors/2023.6.20241121/x86_64/mirror.list",
					text:    "[amazonlinux]\nname=Amazon Linux 2023 repository\nmirrorlist=http://cdn.$awsdomain/al2023/core/mirrors/$releasever/$basearch/mirror.list\npriority=10\nenabled=1\nrepo_gpgcheck=0\ntype=rpm\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-amazon-linux-2023\n"},
			},
			createrepo: []string{"--compress-type=gz", "--database"},
		},
		{
			id: "opensuse-leap15.6", dist: ".150600", payload: "w0.xzdio", suse: true, gcc: "7", database: ndb, dbPath: "/usr/lib/sysimage/rpm", product: "Leap.prod",
			osRelease: "NAME=\"openSUSE Leap\"\nVERSION=\"15.6\"\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"15.6\"\nPRETTY_NAME=\"openSUSE Leap 15.6\"\n",
			release:   "openSUSE-release", version: "15.6", key: "usr/lib/rpm/gnupg/keys/gpg-pubkey-opensuse.asc",
			files: map[string]string{"etc/zypp/zypp.conf": "[main]\nsolver.onlyRequires = true\nrpm.install.excludedocs = yes\n", "etc/products.d/Leap.prod": leapProduct},
			repos: []repo{
				{id: "repo-oss", url: "http://download.opensuse.example/distribution/leap/15.6/repo/oss", parts: all, signed: true, file: "etc/zypp/repos.d/repo-oss.repo",
					text: "[repo-oss]\nname=Main Repository\nenabled=1\nautorefresh=1\nbaseurl=http://download.opensuse.example/distribution/leap/$releasever/repo/oss/\npath=/\ntype=rpm-md\nkeeppackages=0\n"},
			},
			createrepo: []string{"--compress-type=xz", "--no-database", "--checksum=sha512", "--repomd-checksum=sha512"},
		},
	}...)
}

const dnfConf = "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\ninstall_weak_deps=False\n"

const leapProduct = `<?xml version="1.0" encoding="UTF-8"?>
<product schemeversion="0"><vendor>openSUSE</vendor><name>Leap</name><version>15.6</version><release>1</release><arch>x86_64</arch><cpeid>cpe:/o:opensuse:leap:15.6</cpeid><register><target/><updates/></register></product>
`
