package imagetest

import (
	"bytes"
	"fmt"
	"io"
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

// toolchain makes the packages of distros.Distro.Toolchain and their dependencies. libc6-dev needs
// a newer libc6 than the base has.
func (s system) toolchain(t testing.TB, arch string) []repotest.Deb {
	d := require.Value(distros.Lookup(s.id))(t)
	lib := "lib/" + triplet(arch)
	newLibc := s.libc + "+u1"
	deb := func(name, version, fields string, files ...repotest.File) repotest.Deb {
		files = append(files, text("usr/share/doc/"+name+"/copyright", "free\n"),
			text("usr/share/doc/"+name+"/changelog.gz", "old\n"), text("usr/share/man/man1/"+name+".1.gz", "manual\n"))
		control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: Test <test@example.com>\n%sDescription: %s for tests", name, version, arch, fields, name)
		if s.homepage != "" {
			control += "\nHomepage: " + s.homepage
		}
		return repotest.Deb{Control: control, Files: files}
	}
	program := func(name string) repotest.File { return program(name, arch, name) }
	list := []repotest.Deb{
		deb("libtirpc3", "1.3.3", "Depends: libc6\n", library("usr/"+lib+"/libtirpc.so.3.0.0", arch, "libtirpc.so.3", "", "libc.so.6"),
			link("usr/"+lib+"/libtirpc.so.3", "libtirpc.so.3.0.0")),
		deb("cpp", "12", "", program("usr/bin/cpp"), program("usr/bin/ld")),
	}
	libc := deb("libc6", newLibc, "Multi-Arch: same\n", library(lib+"/libc.so.6", arch, "libc.so.6", newLibc),
		text("etc/ld.so.conf.d/libc.conf", "# folders\n"))
	libc.Extra = map[string]string{
		"md5sums":   "d41d8cd98f00b204e9800998ecf8427e  lib/libc.so.6\nd41d8cd98f00b204e9800998ecf8427e  usr/share/man/man1/libc6.1.gz\n",
		"conffiles": "/etc/ld.so.conf.d/libc.conf\n", "postinst": "#!/bin/sh\nexit 1\n", "triggers": "interest ldconfig\n",
	}
	list = append(list, libc, deb("base-files", "12", "Depends: awk, debconf (>= 0.5) | debconf-2.0\n", s.osRelease()...),
		deb("busybox-static", "1.35", "", repotest.File{Name: "bin/busybox", Mode: 0o755, Body: string(ELF{Arch: arch, Static: true, Note: "busybox"}.Bytes())}),
		deb("libc-bin", newLibc, "Depends: libc6\n", program("sbin/ldconfig")),
		deb("libstdc++6", "12", "Depends: libc6\n", library("usr/"+lib+"/libstdc++.so.6", arch, "libstdc++.so.6", "")))
	for _, name := range d.Toolchain(arch) {
		switch {
		case strings.HasPrefix(name, "gcc-"):
			list = append(list, deb(name, "12.2.0-14", "Depends: cpp, libgcc1 (>= 5) | libgcc-s1\n", program("usr/bin/"+triplet(arch)+"-"+name),
				link("usr/bin/"+name, triplet(arch)+"-"+name)))
		case name == "kmod":
			list = append(list, deb(name, "30", "Depends: libc6\n", program("bin/kmod"), link("sbin/modprobe", "/bin/kmod")))
		case name == "libc6-dev":
			list = append(list, deb(name, newLibc, "Depends: libc6 (= "+newLibc+")\n", text("usr/include/stdio.h", "/* */\n")))
		case strings.HasPrefix(name, "lib"):
			list = append(list, deb(name, "0.188", "", library("usr/"+lib+"/"+name+".so", arch, name+".so", "")))
		default:
			list = append(list, deb(name, "4.3", "", program("usr/bin/"+name)))
		}
	}
	return list
}

// baseFiles returns a root file system with a shell, a C library and dpkg's database.
func (w *World) baseFiles(s system, arch string) []repotest.File {
	lib := "lib"
	bin := "bin"
	sbin := "sbin"
	var files []repotest.File
	if s.merged {
		lib = "usr/lib"
		bin = "usr/bin"
		sbin = "usr/sbin"
		for _, dir := range []string{"bin", "sbin", "lib"} {
			files = append(files, link(dir, "usr/"+dir))
		}
		files = append(files, link("var/run", "/run"))
	}
	for _, name := range []string{bin + "/sh", bin + "/mkdir", bin + "/cat", bin + "/mv", bin + "/rm", sbin + "/ldconfig"} {
		files = append(files, program(name, arch, name))
	}
	lib += "/" + triplet(arch)
	var key bytes.Buffer
	require.NoError(w.t, w.key.Serialize(&key))
	for i := range s.extraFiles {
		files = append(files, text(fmt.Sprintf("usr/share/extra/%03d/file-%05d", i/100, i), s.id))
	}
	status := "Package: libc6\nStatus: install ok installed\nVersion: %s\nArchitecture: %s\nMulti-Arch: same\nDescription: C library\n\n" +
		"Package: libgcc1\nStatus: install ok installed\nVersion: 1:12\nArchitecture: %[2]s\nDescription: runtime\n"
	files = append(files,
		library(lib+"/libc.so.6", arch, "libc.so.6", ""),
		library(lib+"/libold.so.1", arch, "libold.so.1", ""),
		text("var/lib/dpkg/status", fmt.Sprintf(status, s.libc, arch)),
		text("var/lib/dpkg/info/libc6:"+arch+".list", fmt.Sprintf("/.\n/lib\n/lib/%s\n/lib/%[1]s/libc.so.6\n/lib/%[1]s/libold.so.1\n", triplet(arch))),
		text("usr/share/keyrings/test.gpg", key.String()),
	)
	files = append(files, s.osRelease()...)
	if s.merged {
		return append(files, text("etc/apt/sources.list.d/debian.sources", fmt.Sprintf(
			"Types: deb\nURIs: %s/%s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/test.gpg\n", w.URL, s.family, s.suite)))
	}
	return append(files, text("etc/apt/sources.list", fmt.Sprintf("deb [signed-by=/usr/share/keyrings/test.gpg] %s/%s %s main\n", w.URL, s.family, s.suite)))
}

func (s system) osRelease() []repotest.File {
	id, _, _ := strings.Cut(s.id, s.version)
	return []repotest.File{
		text("usr/lib/os-release", fmt.Sprintf("ID=%s\nVERSION_ID=\"%s\"\n", id, s.version)),
		link("etc/os-release", "../usr/lib/os-release"),
	}
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
		)(
			t,
		)
		img = require.Value(
			mutate.Append(
				img,
				mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "imagetest"}},
			),
		)(
			t,
		)
	}
	c := require.Value(img.ConfigFile())(t).DeepCopy()
	c.Architecture = arch
	c.OS = "linux"
	c.Config = config
	return require.Value(mutate.ConfigFile(img, c))(t)
}
