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

// makeRocky makes the system in a folder: it builds packages, signs them, publishes them and
// installs the base.
func makeRocky(t testing.TB, headers Headers, debs []deb, dir string) {
	t.Helper()
	key := NewKey(t, "rsa3072")
	testfile.Write(t, filepath.Join(dir, "key.asc"), string(key.Public))
	base, more := software(t, debs)
	more = append(more, headers.kernels(t)...)
	// the links of package filesystem must not be where other packages have their folders
	installed := Build(t, ownPackages(string(key.Public))...)
	built := Build(t, append(base, more...)...)
	key.SignPackages(t, append(slices.Clone(installed), built...))
	installed = append(installed, built[:len(base)]...)
	built = built[len(base):]
	Repository{Packages: installed}.Publish(t, filepath.Join(dir, "www", baseOS))
	Repository{Packages: built}.Publish(t, filepath.Join(dir, "www", appStream))
	install(t, installed, dir)
}

// install makes dir/root, into which rpm installs the base, and the OCI layout dir/base.
func install(t testing.TB, packages []string, dir string) {
	t.Helper()
	root := filepath.Join(dir, "root")
	require.NoError(t, os.Mkdir(root, 0o755))
	rpm := []string{"rpm", "--root", root, "--dbpath", "/var/lib/rpm"}
	tool.Must(t, append(slices.Clone(rpm), "--import", filepath.Join(dir, "key.asc"))...)
	tool.Must(
		t,
		append(append(rpm, "--install", "--define", "_pkgverify_level all"), packages...)...)
	// the script of its package would run it
	tool.Must(t, "ldconfig", "-r", root)
	// Debian's rpm keeps a lock in it
	require.NoError(t, os.RemoveAll(filepath.Join(root, "root/.rpmdb")))
	archive := filepath.Join(t.TempDir(), "root.tar")
	tool.Must(
		t,
		"tar",
		"--sort=name",
		"--numeric-owner",
		"--xattrs",
		"-C",
		root,
		"-cf",
		archive,
		".",
	)
	tool.Must(
		t,
		filepath.Join(require.Value(tool.Project())(t), "ci/oci-layout"),
		archive,
		"amd64",
		filepath.Join(dir, "base"),
		"rocky9",
	)
}

// ownPackages returns the packages of the system itself: its folders, its users, its name, key and
// repositories.
func ownPackages(key string) []Package {
	setup := Package{
		Name:     "setup",
		Version:  "2-1" + dist,
		Arch:     "noarch",
		Requires: []string{"system-release"},
		Files: []File{
			{
				Path:   "/etc/passwd",
				Body:   "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:Kernel Overflow User:/:/sbin/nologin\n",
				Config: true,
			},
			{Path: "/etc/group", Body: "root:x:0:\nnobody:x:65534:\n", Config: true},
			{Path: "/etc/shells", Body: "/bin/sh\n/bin/bash\n", Config: true},
			{
				Path:   "/etc/profile",
				Body:   "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin\n",
				Config: true,
			},
		},
	}
	release := Package{
		Name:    "rocky-release",
		Version: version + "-1" + dist,
		Arch:    "noarch",
		Files:   []File{{Path: keyFile, Body: key}},
		Provides: []string{
			"system-release = " + version,
			"redhat-release = " + version,
			"system-release(releasever) = 9",
		},
	}
	for path, text := range systemFiles {
		release.Files = append(release.Files, File{Path: path, Body: text, Config: true})
	}
	return []Package{filesystem(), setup, release}
}

// filesystem returns the package of the folders and links of a root. Debian's loader and compiler
// look for libraries in folders that the system does not have, so it has links with those names.
func filesystem() Package {
	modes := map[string]fs.FileMode{"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o550}
	links := map[string]string{
		"var/run":                  "../run",
		"var/lock":                 "../run/lock",
		"usr/lib/x86_64-linux-gnu": "../lib64",
	}
	folders := strings.Fields(
		`dev proc sys run tmp root home opt mnt srv etc boot usr usr/bin usr/sbin usr/lib usr/lib64 usr/include usr/share
		usr/src usr/libexec usr/local var var/lib var/tmp var/log var/cache etc/pki etc/pki/rpm-gpg etc/ld.so.conf.d usr/share/licenses`,
	)
	for _, top := range []string{"bin", "sbin", "lib", "lib64"} {
		links[top] = "usr/" + top
	}
	p := Package{Name: "filesystem", Version: "3.16-2" + dist, Requires: []string{"setup"}}
	for _, name := range folders {
		p.Files = append(p.Files, File{Path: "/" + name, Mode: fs.ModeDir | modes[name]})
	}
	for name, target := range links {
		p.Files = append(p.Files, File{Path: "/" + name, Body: target, Mode: fs.ModeSymlink})
	}
	return p
}
