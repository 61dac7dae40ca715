package realrepo

import "fmt"

// What of Rocky Linux 9 its packages, repositories and base have. The tests of distros/rpm have the
// mechanisms of other systems: SUSE's and Berkeley DB's databases, modules, mirror lists, zypper.
const (
	dist    = ".el9" // the end of releases
	version = "9.4"
	keyFile = "/etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9" // in the base
	baseOS  = "download.rocky.example/pub/rocky/9/BaseOS/x86_64/os"
	// appStream has all packages that are not in the base.
	appStream = "download.rocky.example/pub/rocky/9/AppStream/x86_64/os"
)

// systemFiles are the base's description of the system and its repositories.
var systemFiles = map[string]string{
	"/etc/os-release": "NAME=\"Rocky Linux\"\nVERSION=\"9.4\"\nID=\"rocky\"\nVERSION_ID=\"9.4\"\n" +
		"PRETTY_NAME=\"Rocky Linux 9.4\"\nPLATFORM_ID=\"platform:el9\"\n",
	"/etc/dnf/vars/contentdir": "pub/rocky\n",
	"/etc/dnf/dnf.conf": "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\n" +
		"best=True\nskip_if_unavailable=False\ninstall_weak_deps=False\n",
	"/etc/yum.repos.d/rocky.repo": repoFile("baseos", "BaseOS", 1) +
		repoFile("appstream", "AppStream", 1),
	"/etc/yum.repos.d/rocky-devel.repo": repoFile("devel", "devel", 0),
}

// repoFile returns the part of a .repo file with one repository.
func repoFile(id, folder string, enabled int) string {
	return fmt.Sprintf("[%s]\nname=Rocky Linux $releasever - %s\n"+
		"baseurl=http://download.rocky.example/$contentdir/$releasever/%[2]s/$basearch/os/\n"+
		"gpgcheck=1\nenabled=%d\ncountme=1\nmetadata_expire=6h\ngpgkey=file://%s\n", id, folder, enabled, keyFile)
}
