package imagetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

// debianNames are the packages of the user-mode driver.
func debianNames() []string {
	return []string{
		"libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "libnvidia-cfg1", "libnvidia-allocator1", "libnvidia-glcore", "nvidia-vdpau-driver",
		"nvidia-opencl-common", "nvidia-vulkan-common", "nvidia-smi", "nvidia-driver-bin", "nvidia-driver", "firmware-nvidia-gsp",
	}
}

// debianDriver is the driver in Debian's packages: libraries and programs in the folders of the
// alternatives, module sources in a tar, and a newer libcuda1 besides the one that the matrix pins.
func debianDriver(t testing.TB, version, arch string) []repotest.Deb {
	lib := "usr/lib/" + triplet(arch) + "/"
	current := lib + "nvidia/current/"
	have := map[string]repotest.File{}
	for _, f := range DriverFiles(version, arch) {
		have[f.Name] = f
	}
	as := func(from, to string) repotest.File {
		f, ok := have[from]
		if !ok {
			t.Fatalf("imagetest: the driver has no %s", from)
		}
		f.Name = to
		return f
	}
	pack := func(component, name, v string, files ...repotest.File) repotest.Deb {
		files = append(files, text("usr/share/doc/"+name+"/copyright", "the licence of "+name+"\n"))
		return repotest.Deb{
			Component: component, Files: files,
			Control: fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nDepends: nvidia-alternative\nDescription: %s for tests", name, v, arch, name),
		}
	}
	v := version + "-1"
	library := func(name, stem string) repotest.Deb {
		f := as(lib+stem+".so."+version, current+stem+".so."+version)
		f.Mode = 0o644
		return pack("non-free", name, v, f, link(current+stem+".so.1", stem+".so."+version), link(current+stem+".so", stem+".so.1"))
	}
	allocator := library("libnvidia-allocator1", "libnvidia-allocator")
	allocator.Files = append(allocator.Files, link(current+"nvidia-drm_gbm.so", "libnvidia-allocator.so."+version))
	persistenced := repotest.File{Name: "usr/bin/nvidia-persistenced", Mode: 0o755, Body: string(ELF{Arch: arch, Program: true, Needed: []string{"libc.so.6", "libtirpc.so.3"}}.Bytes())}
	const doc = "usr/share/nvidia-driver/"
	return []repotest.Deb{
		library("libcuda1", "libcuda"), pack("non-free", "libcuda1", "535.309.01-0+deb12u1"),
		library("libnvidia-ml1", "libnvidia-ml"), library("libnvidia-ptxjitcompiler1", "libnvidia-ptxjitcompiler"), library("libnvidia-cfg1", "libnvidia-cfg"),
		allocator,
		pack("non-free", "libnvidia-glcore", v, as(lib+"libnvidia-glcore.so."+version, lib+"libnvidia-glcore.so."+version)),
		pack("non-free", "nvidia-vdpau-driver", v, as(lib+"vdpau/libvdpau_nvidia.so."+version, current+"libvdpau_nvidia.so."+version)),
		pack("contrib", "nvidia-opencl-common", v, as("etc/OpenCL/vendors/nvidia.icd", "etc/OpenCL/vendors/nvidia.icd")),
		pack("non-free", "nvidia-vulkan-common", v, as("etc/vulkan/icd.d/nvidia_icd.json", "usr/share/vulkan/icd.d/nvidia_icd.json")),
		pack("non-free", "nvidia-smi", v, as("usr/bin/nvidia-smi", "usr/lib/nvidia/current/nvidia-smi"), as("usr/bin/nvidia-debugdump", "usr/lib/nvidia/current/nvidia-debugdump"),
			text("usr/lib/nvidia/current/nvidia-smi.1.gz", "manual")),
		pack("non-free", "nvidia-driver-bin", v, as("usr/share/nvidia/nvidia-application-profiles-"+version+"-rc", "usr/share/nvidia/nvidia-application-profiles-"+version+"-rc")),
		pack("non-free", "nvidia-driver", v, text("usr/share/doc/nvidia-driver/supported-gpus.json.gz", string(repotest.Compress(t, ".gz", []byte(have[doc+"supported-gpus.json"].Body))))),
		pack("non-free-firmware", "firmware-nvidia-gsp", v, as(doc+"firmware/nvidia/"+version+"/gsp_ga10x.bin", "lib/firmware/nvidia/"+version+"/gsp_ga10x.bin")),
		pack("non-free", "nvidia-kernel-source", v, debianKernel(t, "nvidia-kernel")),
		pack("contrib", "nvidia-open-kernel-source", v, debianKernel(t, "nvidia-open-kernel")),
		pack("contrib", "nvidia-persistenced", "535.171.04-1", persistenced),
	}
}

// debianKernel returns the tar of module sources that a package ships, with Debian's own build
// files.
func debianKernel(t testing.TB, name string) repotest.File {
	files := kernelSources("modules/" + name + "/")
	files = append(
		files,
		text("modules/"+name+"/debian/rules", "# not wanted\n"),
	)
	return text("usr/src/"+strings.TrimSuffix(name, "-source")+".tar.xz", string(repotest.Compress(t, ".xz", repotest.Tar(t, "", files))))
}
