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

// system is a system of the family of Debian that a world may have.
type system struct {
	id, suite, libc   string
	row               string // lines of its row in the matrix
	archs, components []string
	extraFiles        int    // in the base
	homepage          string // of packages, so that those of two systems differ
}

const (
	ubuntuRow   = "    kernels: [4.4, 4.15]\n"
	debian12Row = "    kernels: [6.1]\n    components: [contrib, non-free, non-free-firmware]\n"
	fleetRow    = "    kernels: [5.10]\n"
)

var (
	amd64    = []string{"amd64"}
	mainOnly = []string{"main"}
)

// systems are those of a fleet, in its order. They share one folder of libraries, and so the layers
// of a driver.
var systems = []system{
	{
		id: "debian12", suite: "bookworm", libc: "2.36-9", row: debian12Row,
		archs:      []string{"amd64", "arm64"},
		components: []string{"main", "contrib", "non-free", "non-free-firmware"},
	},
	{"debian13", "trixie", "2.41-12", fleetRow, amd64, mainOnly, 0, ""},
	{"ubuntu22.04", "jammy", "2.35-0ubuntu3", fleetRow, amd64, mainOnly, 0, ""},
	{"ubuntu24.04", "noble", "2.39-0ubuntu8", fleetRow, amd64, mainOnly, 0, ""},
	{"ubuntu20.04", "focal", "2.31-0ubuntu9", fleetRow, amd64, mainOnly, 0, ""},
	{"debian11", "bullseye", "2.31-13", fleetRow, amd64, mainOnly, 0, ""},
	{"ubuntu16.04", "xenial", "2.23-0ubuntu11", ubuntuRow, amd64, mainOnly, 0, ""},
	{"ubuntu18.04", "bionic", "2.27-3ubuntu1", ubuntuRow, amd64, mainOnly, 0, ""},
	{"ubuntu26.04", "resolute", "2.43-1", fleetRow, amd64, mainOnly, 0, ""},
}

// merged says whether /lib is a link to usr/lib.
func (s system) merged() bool { return s.row != ubuntuRow }

// addSystem publishes the packages of a system and its base.
func (w *World) addSystem(s system) {
	archive := w.newArchive(s)
	archive.Publish()
	w.Archives[s.id] = archive
	w.pushBase(s)
	w.addRow(s.id, s.id, s.archs, s.row)
}

// addRow adds a system to the matrix.
func (w *World) addRow(id, base string, archs []string, lines string) {
	list := strings.Join(archs, ", ")
	w.rows += fmt.Sprintf("  - id: %s\n    base: %s\n    archs: [%s]\n%s", id, w.Base(base), list, lines)
}

func triplet(arch string) string {
	a, _ := distros.LookupArch(arch)
	return a.Triplet
}

func (w *World) newArchive(s system) *repotest.Archive {
	a := repotest.NewArchive(w.t, "/"+s.id, s.suite, s.archs, s.components, w.Put)
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
	version := strings.TrimLeft(s.id, "abcdefghijklmnopqrstuvwxyz")
	return []string{
		"$LIB", "lib/" + triplet(arch), "$TRIPLET", triplet(arch), "$ARCH", arch,
		"$NEWLIBC", s.libc + "+u1", "$OLDLIBC", s.libc,
		"$ID", strings.TrimSuffix(s.id, version), "$VERSION", version,
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
	if s.merged() {
		usr = "usr/"
		sources = mergedRoot
	}
	values := append(s.values(arch), "$USR", usr, "$SOURCE", w.URL+"/"+s.id, "$SUITE", s.suite)
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
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	return Image(w.t, arch, v1.Config{Env: env, Cmd: []string{"bash"}}, layer)
}

// Image makes an image of compressed layers.
func Image(t testing.TB, arch string, config v1.Config, layers ...[]byte) v1.Image {
	t.Helper()
	var all []mutate.Addendum
	for _, data := range layers {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
		layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
		require.NoError(t, err)
		made := v1.History{CreatedBy: "imagetest"}
		all = append(all, mutate.Addendum{Layer: layer, History: made})
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img = require.Value(mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: arch, OS: "linux", Config: config, RootFS: v1.RootFS{Type: "layers"},
	}))(t)
	return require.Value(mutate.Append(img, all...))(t)
}
