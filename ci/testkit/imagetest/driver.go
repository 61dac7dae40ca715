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

const driverFiles = `
	$LIB/libcuda.so.$V xlib libcuda.so.1 note=libcuda$V libc.so.6
	$LIB/libcuda.so.1 -> libcuda.so.$V
	$LIB/libnvidia-ml.so.$V xlib libnvidia-ml.so.1 note=libnvidia-ml$V libc.so.6
	$LIB/libnvidia-ptxjitcompiler.so.$V xlib libnvidia-ptxjitcompiler.so.1 note=libnvidia-ptxjitcompiler$V libc.so.6
	$LIB/libnvidia-cfg.so.$V xlib libnvidia-cfg.so.1 note=libnvidia-cfg$V libc.so.6
	$LIB/libnvidia-glcore.so.$V xlib libnvidia-glcore.so.$V note=libnvidia-glcore$V libc.so.6 libX11.so.6
	$LIB/libnvidia-gtk3.so.$V xlib libnvidia-gtk3.so.$V note=libnvidia-gtk3$V libgtk-3.so.0
	$LIB/vdpau/libvdpau_nvidia.so.$V xlib libvdpau_nvidia.so.1 note=libvdpau_nvidia$V libc.so.6
	usr/bin/nvidia-smi elf note=$V
	usr/bin/nvidia-debugdump elf note=$V
	usr/bin/nvidia-persistenced elf note=$V
	usr/bin/nvidia-settings elf note=$V
	usr/bin/nvidia-modprobe elf note=$V
	licenses/LICENSE = NVIDIA's licence of $V
	etc/OpenCL/vendors/nvidia.icd = libnvidia-opencl.so.1
	etc/vulkan/icd.d/nvidia_icd.json = {}
	usr/share/nvidia/nvidia-application-profiles-$V-rc = {}
`

const compat32Files = `
	usr/lib/i386-linux-gnu/libcuda.so.$V xlib libcuda.so.1 note=libcuda$V
	usr/lib/i386-linux-gnu/libcuda.so.1 -> libcuda.so.$V
`

// newerFiles are what drivers after OldDriver have besides.
const newerFiles = `
	$LIB/libnvidia-allocator.so.$V xlib libnvidia-allocator.so.1 note=libnvidia-allocator$V libc.so.6
	$LIB/libnvidia-allocator.so.1 -> libnvidia-allocator.so.$V
	usr/share/nvidia-driver/firmware/nvidia/$V/gsp_ga10x.bin = firmware $V\
	usr/share/nvidia-driver/supported-gpus.json = {"chips":[]}
`

const guestFiles = `
	usr/bin/nvidia-gridd elf note=$V libgrid.so.1
	usr/bin/nvidia-topologyd elf note=$V
	$LIB/nvidia/gridd/libgrid.so.1 xlib libgrid.so.1 note=$V
	$LIB/nvidia/gridd/libgrid.so -> libgrid.so.1
	etc/nvidia/gridd.conf.template = FeatureType=0
	etc/nvidia/nvidia-topologyd.conf.template = #
`

const sourceFiles = `
	$DIRKbuild = obj-m += nvidia.o
	$DIRMakefile = all:
	$DIRnvidia/nv.c = int x;
	$DIRnvidia/nvidia-sources.Kbuild = NVIDIA_SOURCES ?=\nNVIDIA_SOURCES += nvidia/nv.c
`

// DriverFiles returns an installed driver, at the paths of an image.
func DriverFiles(version, arch string) []repotest.File {
	values := []string{"$LIB", "usr/lib/" + triplet(arch), "$V", version}
	files := filesOf(driverFiles, arch, values...)
	files = append(files, kernelSources("usr/src/nvidia-"+version+"/kernel/")...)
	if arch == "amd64" {
		files = append(files, filesOf(compat32Files, "i386", values...)...)
	}
	if version != OldDriver {
		files = append(files, kernelSources("usr/src/nvidia-"+version+"/kernel-open/")...)
		files = append(files, filesOf(newerFiles, arch, values...)...)
	}
	return files
}

// GuestFiles returns what a driver for vGPU guests has besides.
func GuestFiles(version, arch string) []repotest.File {
	return filesOf(guestFiles, arch, "$LIB", "usr/lib/"+triplet(arch), "$V", version)
}

func kernelSources(dir string) []repotest.File { return filesOf(sourceFiles, "", "$DIR", dir) }

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

// addDriver serves the archives of a driver and adds it to the matrix.
func (w *World) addDriver(version string, archs ...string) {
	w.drivers = append(w.drivers, version)
	for _, arch := range archs {
		w.PutRun(version, arch, Run(w.t, version, arch, DriverFiles(version, arch), nil))
	}
}

// PutRun serves an archive under the driver's path and puts its digest into the matrix.
func (w *World) PutRun(version, arch string, data []byte) {
	w.Runs[version+" "+arch] = data
	w.Put(RunPath(version, arch), data)
}

// Matrix returns a matrix.yaml of this world. 418.87.01 does not work on debian12, whose kernel is
// too new for it.
func (w *World) Matrix() string {
	var b strings.Builder
	b.WriteString("systems:\n" + w.rows + "drivers:\n")
	for _, version := range w.drivers {
		fmt.Fprintf(&b, "  - version: %s\n    archives:\n", version)
		for _, arch := range []string{"amd64", "arm64"} {
			data, found := w.Runs[version+" "+arch]
			if found {
				url := w.URL + RunPath(version, arch)
				sum := sha256.Sum256(data)
				fmt.Fprintf(&b, "      %s: {url: %s, sha256: %x, size: %d}\n", arch, url, sum, len(data))
			}
		}
		switch {
		case version == OldDriver:
			b.WriteString("    kernel: {max: 5.1, reason: for tests}\n")
		case version == NewDriver && w.Archives["debian12"] != nil:
			b.WriteString(debianRow)
		}
	}
	return b.String()
}
