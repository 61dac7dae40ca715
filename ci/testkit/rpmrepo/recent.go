package rpmrepo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// recent returns the systems whose files are made after public documents only: CentOS Stream with metalinks,
// Azure Linux with a signed index and lib64 as a link, Leap 16 with a merged /usr and zstd.
func recent() []system {
	all := []part{core, application}
	return []system{
		{
			id: "centos9", dist: ".el9", payload: "w1.zstdio", stream: true, database: sqlite, dbPath: "/var/lib/rpm",
			osRelease: "NAME=\"CentOS Stream\"\nVERSION=\"9\"\nID=\"centos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"9\"\nPLATFORM_ID=\"platform:el9\"\nPRETTY_NAME=\"CentOS Stream 9\"\n",
			release:   "centos-stream-release", version: "9.0", key: "etc/pki/rpm-gpg/RPM-GPG-KEY-centosofficial",
			files: map[string]string{"etc/dnf/vars/stream": "9-stream\n", "etc/dnf/dnf.conf": dnfConf},
			repos: []repo{
				stream("baseos", "BaseOS", core), stream("appstream", "AppStream", application),
			},
			createrepo: []string{"--compress-type=gz", "--no-database"},
		},
		{
			id: "azurelinux3.0", dist: ".azl3", payload: "w1.zstdio", azure: true, database: sqlite, dbPath: "/var/lib/rpm",
			osRelease: "NAME=\"Microsoft Azure Linux\"\nVERSION=\"3.0.20250102\"\nID=azurelinux\nVERSION_ID=\"3.0\"\nPRETTY_NAME=\"Microsoft Azure Linux 3.0\"\n",
			release:   "azurelinux-release", version: "3.0", key: "etc/pki/rpm-gpg/MICROSOFT-RPM-GPG-KEY",
			repos: []repo{
				{id: "azurelinux-official-base", url: "http://packages.microsoft.example/azurelinux/3.0/prod/base/x86_64", parts: all, signed: true, file: "etc/yum.repos.d/azurelinux-official-base.repo",
					text: "[azurelinux-official-base]\nname=Azure Linux Official Base $releasever $basearch\nbaseurl=http://packages.microsoft.example/azurelinux/$releasever/prod/base/$basearch\n" +
						"gpgkey=file:///etc/pki/rpm-gpg/MICROSOFT-RPM-GPG-KEY\ngpgcheck=1\nrepo_gpgcheck=1\nenabled=1\nskip_if_unavailable=True\nsslverify=1\n"},
			},
			createrepo: []string{"--compress-type=gz", "--no-database"},
		},
		{
			id: "opensuse-leap16.0", dist: ".160000", payload: "w1.zstdio", suse: true, gcc: "13", merged: true, database: ndb, dbPath: "/usr/lib/sysimage/rpm", product: "Leap.prod",
			osRelease: "NAME=\"openSUSE Leap\"\nVERSION=\"16.0\"\nID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\nVERSION_ID=\"16.0\"\nPRETTY_NAME=\"openSUSE Leap 16.0\"\n",
			release:   "Leap-release", version: "16.0", key: "usr/lib/rpm/gnupg/keys/gpg-pubkey-29b700a4-62b07e22.asc",
			files: map[string]string{"etc/products.d/Leap.prod": strings.ReplaceAll(leapProduct, "15.6", "16.0")},
			repos: []repo{
				{id: "repo-oss", url: "http://cdn.opensuse.example/distribution/leap/16.0/repo/oss/x86_64", parts: all, signed: true, file: "etc/zypp/repos.d/openSUSE:repo-oss.repo",
					text: "# Repository 'openSUSE:repo-oss' is maintained by the 'openSUSE' service.\n[openSUSE:repo-oss]\nname=repo-oss (${releasever})\nenabled=1\nautorefresh=1\n" +
						"baseurl=http://cdn.opensuse.example/distribution/leap/${releasever}/repo/oss/$basearch\n" +
						"gpgkey=file:///usr/lib/rpm/gnupg/keys/gpg-pubkey-29b700a4-62b07e22.asc\n"},
			},
			createrepo: []string{"--compress-type=gz", "--no-database", "--checksum=sha512", "--repomd-checksum=sha512"},
		},
	}
}

// stream returns a repository of CentOS Stream. The address of the metalink has its name in the path, because
// a folder serves it; the real one has it in the query.
func stream(id, folder string, p part) repo {
	const metalink = "http://mirrors.centos.example/metalink/centos-"
	return repo{
		id: id, url: "http://mirror.stream.centos.example/9-stream/" + folder + "/x86_64/os", parts: []part{p}, file: "etc/yum.repos.d/centos.repo",
		metalink: metalink + id + "-9-stream",
		text: "[" + id + "]\nname=CentOS Stream $releasever - " + folder + "\nmetalink=" + metalink + id + "-$stream?arch=$basearch&protocol=https,http\n" +
			"gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-centosofficial\ngpgcheck=1\nrepo_gpgcheck=0\nmetadata_expire=6h\ncountme=1\nenabled=1\n",
	}
}

// metalinkText returns what MirrorManager answers for a repository in a folder.
func (r repo) metalinkText(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "repodata", "repomd.xml"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return fmt.Sprintf(`<?xml version="1.0" encoding="utf-8"?>
<metalink version="3.0" xmlns="http://www.metalinker.org/" type="dynamic" generator="mirrormanager" xmlns:mm0="http://fedorahosted.org/mirrormanager">
 <files>
  <file name="repomd.xml">
   <mm0:timestamp>%d</mm0:timestamp>
   <size>%d</size>
   <verification>
    <hash type="sha256">%s</hash>
   </verification>
   <resources maxconnections="1">
    <url protocol="http" type="http" location="US" preference="100">%s/repodata/repomd.xml</url>
   </resources>
  </file>
 </files>
</metalink>
`, firstRevision, len(data), hex.EncodeToString(sum[:]), r.url), nil
}
