package realrepo

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// make makes the system in a folder: it builds packages, signs them, publishes them and installs the base.
func (s system) make(t testing.TB, headers Headers, debs []deb, dir string) {
	t.Helper()
	key := NewKey(t, "rsa3072")
	testfile.Write(t, filepath.Join(dir, "key.asc"), string(key.Public))
	own := s.ownPackages(string(key.Public))
	base, more := s.software(t, debs)
	more = append(more, s.kernels(t, headers)...)
	// the links of package filesystem must not be where other packages have their folders
	installed := Build(t, own...)
	built := Build(t, append(base, more...)...)
	key.SignPackages(t, append(slices.Clone(installed), built...))
	installed, built = append(installed, built[:len(base)]...), built[len(base):]
	last := len(s.repos) - 1
	packages := make([][]string, len(s.repos))
	packages[0] = installed
	packages[last] = append(packages[last], built...)
	for i, url := range s.repos {
		style := s.style
		if style.Packages = packages[i]; style.PublishKey {
			style.Key = key
		}
		style.Publish(t, filepath.Join(dir, "www", url))
	}
	s.install(t, installed, dir)
}

// databasePath returns the folder of the system's database of packages.
func (s system) databasePath() string {
	if s.suse {
		return "/usr/lib/sysimage/rpm"
	}
	return "/var/lib/rpm"
}

// install makes dir/root, into which rpm installs the base, and the OCI layout dir/base, whose database has
// the system's own format.
func (s system) install(t testing.TB, packages []string, dir string) {
	t.Helper()
	root, own := filepath.Join(dir, "root"), filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.Mkdir(root, 0o755))
	rpm := []string{"rpm", "--root", root, "--dbpath", s.databasePath()}
	tool.Must(t, append(slices.Clone(rpm), "--import", filepath.Join(dir, "key.asc"))...)
	tool.Must(t, append(append(rpm, "--install", "--define", "_pkgverify_level all"), packages...)...)
	tool.Must(t, "ldconfig", "-r", root)                                 // the script of its package would run it
	require.NoError(t, os.RemoveAll(filepath.Join(root, "root/.rpmdb"))) // Debian's rpm keeps a lock in it
	if s.suse {
		testfile.Write(t, filepath.Join(root, "var/lib/rpm"), "-> ../../usr/lib/sysimage/rpm")
	}
	tool.Must(t, "cp", "-a", root, own)
	if s.suse {
		tool.Must(t, "sh", "-ec", convertScript, "sh", filepath.Join(own, s.databasePath()), Debian(t, "trixie"))
	}
	archive, layout := own+".tar", filepath.Join(dir, "base")
	tool.Must(t, "tar", "--sort=name", "--numeric-owner", "--xattrs", "-C", own, "-cf", archive, ".")
	tool.Must(t, "umoci", "init", "--layout", layout)
	tool.Must(t, "umoci", "new", "--image", layout+":"+s.id)
	tool.Must(t, "umoci", "config", "--image", layout+":"+s.id, "--config.env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	addLayer(t, layout, s.id, archive)
}

// ownPackages returns the packages of the system itself: its folders, its users, its name, key and
// repositories.
func (s system) ownPackages(key string) []Package {
	major := s.version
	if strings.HasPrefix(s.dist, ".el") {
		major, _, _ = strings.Cut(s.version, ".")
	}
	setup := Package{Name: "setup", Version: "2-1" + s.dist, Arch: "noarch", Requires: []string{"system-release"}, Files: []File{
		{Path: "/etc/passwd", Body: "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:Kernel Overflow User:/:/sbin/nologin\n", Config: true},
		{Path: "/etc/group", Body: "root:x:0:\nnobody:x:65534:\n", Config: true},
		{Path: "/etc/shells", Body: "/bin/sh\n/bin/bash\n", Config: true},
		{Path: "/etc/profile", Body: "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin\n", Config: true},
	}}
	release := Package{Name: s.release, Version: s.version + "-1" + s.dist, Arch: "noarch", Files: []File{{Path: s.key, Body: key}}}
	for _, name := range []string{"system-release", "redhat-release", "distribution-release"} {
		release.Provides = append(release.Provides, name+" = "+s.version)
	}
	release.Provides = append(release.Provides, "system-release(releasever) = "+major)
	for path, text := range s.files {
		config := strings.HasPrefix(path, "/etc/") && !strings.HasPrefix(path, "/etc/products.d")
		release.Files = append(release.Files, File{Path: path, Body: text, Config: config})
	}
	return []Package{s.filesystem(), setup, release}
}

// filesystem returns the package of the folders and links of a root. Debian's loader and compiler look for
// libraries in folders that these systems do not have, so it has links with those names.
func (s system) filesystem() Package {
	modes := map[string]fs.FileMode{"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o550}
	links := map[string]string{"var/run": "../run", "var/lock": "../run/lock", "usr/lib/x86_64-linux-gnu": "../lib64"}
	folders := strings.Fields(`dev proc sys run tmp root home opt mnt srv etc boot usr usr/bin usr/sbin usr/lib usr/lib64 usr/include usr/share
		usr/src usr/libexec usr/local var var/lib var/tmp var/log var/cache etc/pki etc/pki/rpm-gpg etc/ld.so.conf.d usr/share/licenses`)
	if s.suse { // Leap 15 has folders instead of links in its root
		folders = append(folders, "bin", "sbin", "lib", "lib64", "usr/lib/modules", "etc/products.d")
		links["bin/sh"], links["bin/bash"], links["etc/products.d/baseproduct"] = "../usr/bin/bash", "../usr/bin/bash", "Leap.prod"
		links["lib/x86_64-linux-gnu"], links["lib/modules"] = "../lib64", "../usr/lib/modules"
	} else {
		for _, top := range []string{"bin", "sbin", "lib", "lib64"} {
			links[top] = "usr/" + top
		}
	}
	p := Package{Name: "filesystem", Version: "3.16-2" + s.dist, Requires: []string{"setup"}}
	for _, name := range folders {
		p.Files = append(p.Files, File{Path: "/" + name, Mode: fs.ModeDir | modes[name]})
	}
	for name, target := range links {
		p.Files = append(p.Files, File{Path: "/" + name, Body: target, Mode: fs.ModeSymlink})
	}
	return p
}
