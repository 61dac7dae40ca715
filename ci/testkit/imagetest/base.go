package imagetest

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

// system is the data of a system that tests need.
type system struct {
	id, family, version, suite string
	archs, components          []string
	merged                     bool // /lib is a link to usr/lib
	libc                       string
	extraFiles                 int    // in the base
	homepage                   string // of packages, so that those of two systems differ
}

func systems() []system {
	return []system{
		{
			id: "debian12", family: "debian", version: "12", suite: "bookworm", archs: []string{"amd64", "arm64"}, merged: true, libc: "2.36-9",
			components: []string{"main", "contrib", "non-free", "non-free-firmware"},
		},
		{
			id:         "ubuntu16.04",
			family:     "ubuntu",
			version:    "16.04",
			suite:      "xenial",
			archs:      []string{"amd64"},
			components: []string{"main"},
			libc:       "2.23-0ubuntu11",
		},
		{
			id:         "ubuntu18.04",
			family:     "ubuntu18",
			version:    "18.04",
			suite:      "bionic",
			archs:      []string{"amd64"},
			components: []string{"main"},
			libc:       "2.27-3ubuntu1",
		},
	}
}

func triplet(arch string) string {
	a, _ := distros.LookupArch(arch)
	return a.Triplet
}

func (w *World) newArchive(s system) *repotest.Archive {
	a := repotest.NewArchive(w.t, "/"+s.family, s.suite, s.archs, s.components, w.Put)
	a.Signer = w.key
	for _, arch := range s.archs {
		a.Packages = append(a.Packages, s.toolchain(w.t, arch)...)
		if s.id == "debian12" {
			a.Packages = append(a.Packages, debianDriver(w.t, NewDriver, arch)...)
			if arch == "amd64" {
				a.Packages = append(a.Packages, kernels()...)
			}
		}
	}
	return a
}

// debToolchain are the packages that every compiler needs. libc6-dev needs a newer libc6 than the
// base has.
const debToolchain = `
package libtirpc3 1.3.3
	Depends: libc6
	usr/$LIB/libtirpc.so.3.0.0 lib libtirpc.so.3 libc.so.6
	usr/$LIB/libtirpc.so.3 -> libtirpc.so.3.0.0
package cpp 12
	usr/bin/cpp elf
	usr/bin/ld elf
package libc6 $NEWLIBC
	Multi-Arch: same
	$LIB/libc.so.6 lib libc.so.6 note=$NEWLIBC
	etc/ld.so.conf.d/libc.conf = # folders
package base-files 12
	Depends: awk, debconf (>= 0.5) | debconf-2.0
	usr/lib/os-release = ID=$ID\nVERSION_ID="$VERSION"
	etc/os-release -> ../usr/lib/os-release
package busybox-static 1.35
	bin/busybox static busybox
package libc-bin $NEWLIBC
	Depends: libc6
	sbin/ldconfig elf
package libstdc++6 12
	Depends: libc6
	usr/$LIB/libstdc++.so.6 lib libstdc++.so.6
`

// debTools are the packages of distros.Distro.Toolchain.
var debTools = []template{
	{"gcc-", `
package $NAME 12.2.0-14
	Depends: cpp, libgcc1 (>= 5) | libgcc-s1
	usr/bin/$TRIPLET-$NAME elf
	usr/bin/$NAME -> $TRIPLET-$NAME
`},
	{"kmod", `
package kmod 30
	Depends: libc6
	bin/kmod elf
	sbin/modprobe -> /bin/kmod
`},
	{"libc6-dev", `
package libc6-dev $NEWLIBC
	Depends: libc6 (= $NEWLIBC)
	usr/include/stdio.h = /* */
`},
	{"lib", `
package $NAME 0.188
	usr/$LIB/$NAME.so lib $NAME.so
`},
	{"", `
package $NAME 4.3
	usr/bin/$NAME elf
`},
}

// values are what lines about a system have in them.
func (s system) values(arch string) []string {
	id, _, _ := strings.Cut(s.id, s.version)
	return []string{
		"$LIB", "lib/" + triplet(arch), "$TRIPLET", triplet(arch), "$ARCH", arch,
		"$NEWLIBC", s.libc + "+u1", "$OLDLIBC", s.libc, "$ID", id, "$VERSION", s.version,
	}
}

// toolchain makes the packages of a compiler.
func (s system) toolchain(t testing.TB, arch string) (list []repotest.Deb) {
	all := packagesOf(debToolchain, arch, s.values(arch)...)
	for _, name := range require.Value(distros.Lookup(s.id))(t).Toolchain(arch) {
		values := append(s.values(arch), "$NAME", name)
		all = append(all, packagesOf(templateFor(debTools, name), arch, values...)...)
	}
	for _, d := range all {
		d.fields = slices.Insert(d.fields, 0, field{"Maintainer", "Test <test@example.com>"})
		p := d.deb(arch)
		p.Files = append(p.Files, filesOf(debDocuments, arch, "$NAME", d.name)...)
		if s.homepage != "" {
			p.Control += "\nHomepage: " + s.homepage
		}
		if d.name == "libc6" {
			p.Extra = libcControl
		}
		list = append(list, p)
	}
	return list
}

const debDocuments = `
	usr/share/doc/$NAME/copyright = free
	usr/share/doc/$NAME/changelog.gz = old
	usr/share/man/man1/$NAME.1.gz = manual
`

// libcControl are the other control files of libc6.
var libcControl = map[string]string{
	"md5sums":   "d41d8cd98f00b204e9800998ecf8427e  lib/libc.so.6\nd41d8cd98f00b204e9800998ecf8427e  usr/share/man/man1/libc6.1.gz\n",
	"conffiles": "/etc/ld.so.conf.d/libc.conf\n", "postinst": "#!/bin/sh\nexit 1\n", "triggers": "interest ldconfig\n",
}

// baseRoot is a root file system with a shell, a C library and dpkg's database.
const baseRoot = `
	$USRbin/sh elf
	$USRbin/mkdir elf
	$USRbin/cat elf
	$USRbin/mv elf
	$USRbin/rm elf
	$USRsbin/ldconfig elf
	$USR$LIB/libc.so.6 lib libc.so.6
	$USR$LIB/libold.so.1 lib libold.so.1
	var/lib/dpkg/status = Package: libc6\nStatus: install ok installed\nVersion: $OLDLIBC\nArchitecture: $ARCH\nMulti-Arch: same\nDescription: C library\n\nPackage: libgcc1\nStatus: install ok installed\nVersion: 1:12\nArchitecture: $ARCH\nDescription: runtime
	var/lib/dpkg/info/libc6:$ARCH.list = /.\n/lib\n/$LIB\n/$LIB/libc.so.6\n/$LIB/libold.so.1
	usr/lib/os-release = ID=$ID\nVERSION_ID="$VERSION"
	etc/os-release -> ../usr/lib/os-release
`

// mergedRoot is what a root has besides in which /lib is a link.
const mergedRoot = `
	bin -> usr/bin
	sbin -> usr/sbin
	lib -> usr/lib
	var/run -> /run
	etc/apt/sources.list.d/debian.sources = Types: deb\nURIs: $SOURCE\nSuites: $SUITE\nComponents: main\nSigned-By: /usr/share/keyrings/test.gpg
`

const splitRoot = `
	etc/apt/sources.list = deb [signed-by=/usr/share/keyrings/test.gpg] $SOURCE $SUITE main
`

// baseFiles returns the files of a base.
func (w *World) baseFiles(s system, arch string) []repotest.File {
	usr := ""
	sources := splitRoot
	if s.merged {
		usr = "usr/"
		sources = mergedRoot
	}
	values := append(s.values(arch), "$USR", usr, "$SOURCE", w.URL+"/"+s.family, "$SUITE", s.suite)
	files := filesOf(sources+baseRoot, arch, values...)
	var key bytes.Buffer
	require.NoError(w.t, w.key.Serialize(&key))
	files = append(files, text("usr/share/keyrings/test.gpg", key.String()))
	for i := range s.extraFiles {
		name := fmt.Sprintf("usr/share/extra/%03d/file-%05d", i/100, i)
		files = append(files, text(name, s.id))
	}
	return files
}

// Base returns the reference of a system's base image.
func (w *World) Base(id string) string { return w.Host + "/base/" + id + ":test" }

// pushBase pushes a base to the registry: an index with one image for each architecture, each with
// one layer.
func (w *World) pushBase(s system) {
	var images []v1.Image
	for _, arch := range s.archs {
		images = append(images, w.baseImage(s, arch))
	}
	w.push(w.Base(s.id), Index(w.t, images...))
}

// push pushes an image or an index to the registry.
func (w *World) push(ref string, what remote.Taggable) {
	require.NoErrorf(
		w.t,
		remote.Push(require.Value(name.ParseReference(ref))(w.t), what),
		"push %s",
		ref,
	)
}

func (w *World) baseImage(s system, arch string) v1.Image {
	layer := repotest.Compress(w.t, ".gz", repotest.Tar(w.t, "", w.baseFiles(s, arch)))
	return Image(
		w.t,
		arch,
		v1.Config{
			Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"},
			Cmd: []string{"bash"},
		},
		layer,
	)
}

// Image makes an image of compressed layers.
func Image(t testing.TB, arch string, config v1.Config, layers ...[]byte) v1.Image {
	t.Helper()
	img := mutate.ConfigMediaType(
		mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON,
	)
	for _, data := range layers {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
		layer := require.Value(
			tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer)),
		)(t)
		img = require.Value(
			mutate.Append(
				img,
				mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "imagetest"}},
			),
		)(t)
	}
	c := require.Value(img.ConfigFile())(t).DeepCopy()
	c.Architecture = arch
	c.OS = "linux"
	c.Config = config
	return require.Value(mutate.ConfigFile(img, c))(t)
}
