package imagetest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/makeself"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// DriverFiles returns an installed driver, at the paths of an image.
func DriverFiles(version, arch string) []repotest.File {
	lib := "usr/lib/" + triplet(arch) + "/"
	library := func(dir, stem, soname, libArch string, needed ...string) repotest.File {
		f := library(dir+stem+".so."+version, libArch, soname, stem+version, needed...)
		f.Mode = 0o755
		return f
	}
	program := func(name string) repotest.File { return program("usr/bin/"+name, arch, name+version) }
	files := []repotest.File{
		library(lib, "libcuda", "libcuda.so.1", arch, "libc.so.6"),
		link(lib+"libcuda.so.1", "libcuda.so."+version),
		library(lib, "libnvidia-ml", "libnvidia-ml.so.1", arch, "libc.so.6"),
		library(lib, "libnvidia-ptxjitcompiler", "libnvidia-ptxjitcompiler.so.1", arch, "libc.so.6"),
		library(lib, "libnvidia-cfg", "libnvidia-cfg.so.1", arch, "libc.so.6"),
		library(lib, "libnvidia-glcore", "libnvidia-glcore.so."+version, arch, "libc.so.6", "libX11.so.6"),
		library(lib, "libnvidia-gtk3", "libnvidia-gtk3.so."+version, arch, "libgtk-3.so.0"),
		library(lib+"vdpau/", "libvdpau_nvidia", "libvdpau_nvidia.so.1", arch, "libc.so.6"),
		program("nvidia-smi"), program("nvidia-debugdump"), program("nvidia-persistenced"), program("nvidia-settings"), program("nvidia-modprobe"),
		text("licenses/LICENSE", "NVIDIA's licence of "+version+"\n"),
		text("etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\n"),
		text("etc/vulkan/icd.d/nvidia_icd.json", "{}\n"),
		text("usr/share/nvidia/nvidia-application-profiles-"+version+"-rc", "{}\n"),
	}
	files = append(files, kernelSources("usr/src/nvidia-"+version+"/kernel/")...)
	if arch == "amd64" {
		files = append(files, library("usr/lib/i386-linux-gnu/", "libcuda", "libcuda.so.1", "i386"), link("usr/lib/i386-linux-gnu/libcuda.so.1", "libcuda.so."+version))
	}
	if version != OldDriver {
		files = append(files, kernelSources("usr/src/nvidia-"+version+"/kernel-open/")...)
		files = append(files,
			library(lib, "libnvidia-allocator", "libnvidia-allocator.so.1", arch, "libc.so.6"),
			link(lib+"libnvidia-allocator.so.1", "libnvidia-allocator.so."+version),
			text("usr/share/nvidia-driver/firmware/nvidia/"+version+"/gsp_ga10x.bin", "firmware "+version),
			text("usr/share/nvidia-driver/supported-gpus.json", `{"chips":[]}`+"\n"))
	}
	return files
}

// GuestFiles returns what a driver for vGPU guests has besides.
func GuestFiles(version, arch string) []repotest.File {
	lib := "usr/lib/" + triplet(arch) + "/nvidia/gridd/"
	return []repotest.File{
		program("usr/bin/nvidia-gridd", arch, "nvidia-gridd"+version, "libgrid.so.1"),
		program("usr/bin/nvidia-topologyd", arch, "nvidia-topologyd"+version),
		{
			Name: lib + "libgrid.so.1",
			Mode: 0o755,
			Body: string(ELF{Soname: "libgrid.so.1", Arch: arch, Note: version}.Bytes()),
		},
		link(lib+"libgrid.so", "libgrid.so.1"),
		text("etc/nvidia/gridd.conf.template", "FeatureType=0\n"),
		text("etc/nvidia/nvidia-topologyd.conf.template", "#\n"),
	}
}

func kernelSources(dir string) []repotest.File {
	return []repotest.File{
		text(dir+"Kbuild", "obj-m += nvidia.o\n"),
		text(dir+"Makefile", "all:\n"),
		text(dir+"nvidia/nv.c", "int x;\n"),
		text(dir+"nvidia/nvidia-sources.Kbuild", "NVIDIA_SOURCES ?=\nNVIDIA_SOURCES += nvidia/nv.c\n"),
	}
}

// Run makes a .run archive of an installed driver. It calls change, which may be nil, before it
// writes the archive.
func Run(
	t testing.TB,
	version, arch string,
	files []repotest.File,
	change func(*makeself.Archive),
) []byte {
	t.Helper()
	fsys := fstest.MapFS{}
	for _, f := range files {
		m := &fstest.MapFile{Data: []byte(f.Body), Mode: fs.FileMode(cmp.Or(f.Mode, 0o644))}
		if f.Link != "" {
			m.Data = []byte(f.Link)
			m.Mode = fs.ModeSymlink | 0o777
		}
		fsys[f.Name] = m
	}
	a, _, err := makeself.FromTree(fsys, version, kernelArch(arch))
	require.NoErrorf(t, err, "imagetest")
	a.Compression = "gzip"
	if change != nil {
		change(a)
	}
	data, err := a.Encode(context.Background())
	require.NoErrorf(t, err, "imagetest")
	return data
}

func kernelArch(arch string) string {
	if arch == "arm64" {
		return "aarch64"
	}
	return "x86_64"
}

// RunPath returns the path under which a world serves a .run archive.
func RunPath(version, arch string) string {
	return fmt.Sprintf("/tesla/%s/NVIDIA-Linux-%s-%s.run", version, kernelArch(arch), version)
}

func (w *World) addRun(version, arch string) {
	w.PutRun(version, arch, Run(w.t, version, arch, DriverFiles(version, arch), nil))
}

// PutRun serves an archive under the driver's path and puts its digest into the matrix.
func (w *World) PutRun(version, arch string, data []byte) {
	w.Runs[version+" "+arch] = data
	w.Put(RunPath(version, arch), data)
}

// writeDriver writes the row of a driver with its archives.
func (w *World) writeDriver(b *strings.Builder, version string) {
	fmt.Fprintf(b, "  - version: %s\n    archives:\n", version)
	for _, arch := range []string{"amd64", "arm64"} {
		if data, ok := w.Runs[version+" "+arch]; ok {
			fmt.Fprintf(
				b,
				"      %s: {url: %s, sha256: %x, size: %d}\n",
				arch,
				w.URL+RunPath(version, arch),
				sha256.Sum256(data),
				len(data),
			)
		}
	}
}

// Matrix returns a matrix.yaml of this world. 418.87.01 does not work on debian12, whose kernel is
// too new for it.
func (w *World) Matrix() string {
	if w.matrix != "" {
		return w.matrix
	}
	var b strings.Builder
	b.WriteString("systems:\n")
	for _, s := range systems() {
		fmt.Fprintf(
			&b,
			"  - id: %s\n    base: %s\n    archs: [%s]\n",
			s.id,
			w.Base(s.id),
			strings.Join(s.archs, ", "),
		)
		if s.merged {
			b.WriteString(
				"    kernels: [6.1]\n    components: [contrib, non-free, non-free-firmware]\n",
			)
		} else {
			b.WriteString("    kernels: [4.4, 4.15]\n")
		}
	}
	b.WriteString("drivers:\n")
	for _, v := range []string{OldDriver, NewDriver} {
		w.writeDriver(&b, v)
		if v == OldDriver {
			b.WriteString("    kernel: {max: 5.1, reason: for tests}\n")
			continue
		}
		fmt.Fprintf(
			&b,
			"    debian:\n      systems: {debian12: %s-1}\n      packages: [%s]\n      kernel: [nvidia-kernel-source, nvidia-open-kernel-source]\n"+
				"      extras: [nvidia-persistenced]\n      depends: [libtirpc3]\n",
			v,
			strings.Join(debianNames(), ", "),
		)
	}
	return b.String()
}
