package imagetest

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

// debianRow are the packages of the driver in the matrix.
const debianRow = `    debian:
      systems: {debian12: ` + NewDriver + `-1}
      packages: [libcuda1, libnvidia-ml1, libnvidia-ptxjitcompiler1, libnvidia-cfg1, libnvidia-allocator1, libnvidia-glcore, nvidia-vdpau-driver,
        nvidia-opencl-common, nvidia-vulkan-common, nvidia-smi, nvidia-driver-bin, nvidia-driver, firmware-nvidia-gsp]
      kernel: [nvidia-kernel-source, nvidia-open-kernel-source]
      extras: [nvidia-persistenced]
      depends: [libtirpc3]
`

// debianPackages are the driver: libraries and programs in the folders of the alternatives, and a
// newer libcuda1 besides the one that the matrix pins.
const debianPackages = `
package libcuda1 $V-1
	Component: non-free
	$LIB/nvidia/current/libcuda.so.$V < $LIB/libcuda.so.$V
	$LIB/nvidia/current/libcuda.so.1 -> libcuda.so.$V
	$LIB/nvidia/current/libcuda.so -> libcuda.so.1
package libcuda1 535.309.01-0+deb12u1
	Component: non-free
package libnvidia-ml1 $V-1
	Component: non-free
	$LIB/nvidia/current/libnvidia-ml.so.$V < $LIB/libnvidia-ml.so.$V
	$LIB/nvidia/current/libnvidia-ml.so.1 -> libnvidia-ml.so.$V
	$LIB/nvidia/current/libnvidia-ml.so -> libnvidia-ml.so.1
package libnvidia-ptxjitcompiler1 $V-1
	Component: non-free
	$LIB/nvidia/current/libnvidia-ptxjitcompiler.so.$V < $LIB/libnvidia-ptxjitcompiler.so.$V
	$LIB/nvidia/current/libnvidia-ptxjitcompiler.so.1 -> libnvidia-ptxjitcompiler.so.$V
	$LIB/nvidia/current/libnvidia-ptxjitcompiler.so -> libnvidia-ptxjitcompiler.so.1
package libnvidia-cfg1 $V-1
	Component: non-free
	$LIB/nvidia/current/libnvidia-cfg.so.$V < $LIB/libnvidia-cfg.so.$V
	$LIB/nvidia/current/libnvidia-cfg.so.1 -> libnvidia-cfg.so.$V
	$LIB/nvidia/current/libnvidia-cfg.so -> libnvidia-cfg.so.1
package libnvidia-allocator1 $V-1
	Component: non-free
	$LIB/nvidia/current/libnvidia-allocator.so.$V < $LIB/libnvidia-allocator.so.$V
	$LIB/nvidia/current/libnvidia-allocator.so.1 -> libnvidia-allocator.so.$V
	$LIB/nvidia/current/libnvidia-allocator.so -> libnvidia-allocator.so.1
	$LIB/nvidia/current/nvidia-drm_gbm.so -> libnvidia-allocator.so.$V
package libnvidia-glcore $V-1
	Component: non-free
	$LIB/libnvidia-glcore.so.$V < $LIB/libnvidia-glcore.so.$V
package nvidia-vdpau-driver $V-1
	Component: non-free
	$LIB/nvidia/current/libvdpau_nvidia.so.$V < $LIB/vdpau/libvdpau_nvidia.so.$V
package nvidia-opencl-common $V-1
	Component: contrib
	etc/OpenCL/vendors/nvidia.icd < etc/OpenCL/vendors/nvidia.icd
package nvidia-vulkan-common $V-1
	Component: non-free
	usr/share/vulkan/icd.d/nvidia_icd.json < etc/vulkan/icd.d/nvidia_icd.json
package nvidia-smi $V-1
	Component: non-free
	usr/lib/nvidia/current/nvidia-smi < usr/bin/nvidia-smi
	usr/lib/nvidia/current/nvidia-debugdump < usr/bin/nvidia-debugdump
	usr/lib/nvidia/current/nvidia-smi.1.gz = manual
package nvidia-driver-bin $V-1
	Component: non-free
	usr/share/nvidia/nvidia-application-profiles-$V-rc < usr/share/nvidia/nvidia-application-profiles-$V-rc
package nvidia-driver $V-1
	Component: non-free
package firmware-nvidia-gsp $V-1
	Component: non-free-firmware
	lib/firmware/nvidia/$V/gsp_ga10x.bin < usr/share/nvidia-driver/firmware/nvidia/$V/gsp_ga10x.bin
package nvidia-kernel-source $V-1
	Component: non-free
package nvidia-open-kernel-source $V-1
	Component: contrib
package nvidia-persistenced 535.171.04-1
	Component: contrib
	usr/bin/nvidia-persistenced elf libtirpc.so.3
`

// debianDriver is the driver in Debian's packages, with module sources in a tar.
func debianDriver(t testing.TB, version, arch string) (list []repotest.Deb) {
	installed := map[string]repotest.File{}
	for _, f := range DriverFiles(version, arch) {
		installed[f.Name] = f
	}
	gpus := installed["usr/share/nvidia-driver/supported-gpus.json"].Body
	packed := string(repotest.Compress(t, ".gz", []byte(gpus)))
	made := map[string]repotest.File{
		"nvidia-driver":             text("usr/share/doc/nvidia-driver/supported-gpus.json.gz", packed),
		"nvidia-kernel-source":      debianKernel(t, "nvidia-kernel"),
		"nvidia-open-kernel-source": debianKernel(t, "nvidia-open-kernel"),
	}
	values := []string{"$LIB", "usr/lib/" + triplet(arch), "$V", version}
	for _, d := range packagesOf(debianPackages, arch, values...) {
		for i, f := range d.files {
			if f.Type == copied {
				d.files[i] = installed[f.Link]
				d.files[i].Name = f.Name
			}
			if strings.Contains(f.Name, ".so") {
				d.files[i].Mode = 0
			}
		}
		extra, found := made[d.name]
		if found {
			d.files = append(d.files, extra)
		}
		licence := text("usr/share/doc/"+d.name+"/copyright", "the licence of "+d.name+"\n")
		d.files = append(d.files, licence)
		d.fields = append(d.fields, field{"Depends", "nvidia-alternative"})
		list = append(list, d.deb(arch))
	}
	return list
}

// debianKernel returns the tar of module sources that a package ships, with Debian's own build
// files.
func debianKernel(t testing.TB, name string) repotest.File {
	files := kernelSources("modules/" + name + "/")
	files = append(files, text("modules/"+name+"/debian/rules", "# not wanted\n"))
	return text("usr/src/"+strings.TrimSuffix(name, "-source")+".tar.xz", string(repotest.Compress(t, ".xz", repotest.Tar(t, "", files))))
}
