package makeself

import (
	"path"
	"strings"
)

// libraryTypes maps the start of a library's name to its manifest type and component. A library that is not
// listed is an OPENGL_LIB, the largest family.
var libraryTypes = []struct{ prefix, typ, path, tag string }{
	{"libcudadebugger.", "CUDA_LIB", "/", "gpgpudbg"},
	{"libcuda.", "CUDA_LIB", "/", "gpgpu"},
	{"libnvidia-ptxjitcompiler.", "CUDA_LIB", "/", "gpgpu"},
	{"libnvidia-fatbinaryloader.", "CUDA_LIB", "/", "gpgpu"},
	{"libnvidia-nvvm", "CUDA_LIB", "/", "gpgpu"},
	{"libnvidia-compiler", "CUDA_LIB", "/", "compiler"},
	{"libnvidia-tileiras.", "CUDA_LIB", "/", "gpgpu"},
	{"libnvidia-ml.", "CUDA_LIB", "/", "nvml"},
	{"libnvidia-pkcs11", "CUDA_LIB", "/", "nvlibpkcs11"},
	{"libnvidia-opencl.", "OPENCL_LIB", "/", "gpgpu"},
	{"libOpenCL.", "OPENCL_WRAPPER_LIB", "/", "gpgpu"},
	{"libnvcuvid.", "NVCUVID_LIB", "", "nvcuvid"},
	{"libnvidia-opticalflow.", "NVCUVID_LIB", "", "opticalflow"},
	{"libnvidia-encode.", "ENCODEAPI_LIB", "", "encodeapi"},
	{"libnvidia-ifr.", "NVIFR_LIB", "", "nvifr"},
	{"libnvidia-cfg.", "UTILITY_LIB", "", "installer"},
	{"libnvidia-allocator.", "UTILITY_LIB", "", "nvalloc"},
	{"libnvidia-fbc.", "UTILITY_LIB", "", "nvfbc"},
	{"libnvidia-gtk", "UTILITY_LIB", "", "xutils"},
	{"libnvidia-wayland-client.", "UTILITY_LIB", "", "xutils"},
	{"libvdpau_nvidia.", "VDPAU_LIB", "vdpau/", "vdpau"},
	{"libnvidia-tls.", "TLS_LIB", "/", "opengl"},
	{"libnvidia-ngx.", "OPENGL_LIB", "", "ngx"},
	{"libnvoptix.", "OPENGL_LIB", "", "optix"},
	{"libnvidia-rtcore.", "OPENGL_LIB", "", "raytracing"},
	{"lib", "OPENGL_LIB", "", "opengl"},
}

// linkTypes are the types of links to libraries whose type is not the library's type followed by _SYMLINK.
var linkTypes = map[string]string{
	"CUDA_LIB": "CUDA_SYMLINK", "OPENGL_LIB": "OPENGL_SYMLINK", "VDPAU_LIB": "VDPAU_SYMLINK", "TLS_LIB": "TLS_SYMLINK",
	"OPENCL_WRAPPER_LIB": "OPENCL_WRAPPER_SYMLINK",
}

// folders maps paths in an installed driver to members and lines. VERSION stands for the driver's version; %n
// for the rest of the path, %d for its directory followed by a slash. The first match counts.
var folders = []struct{ prefix, member, line string }{
	{"usr/src/nvidia-VERSION/kernel/", "kernel/%n", "KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman"},
	{"usr/src/nvidia-VERSION/kernel-open/", "kernel-open/%n", "KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:open_resman"},
	{"kernel/", "kernel/%n", "KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman"},
	{"kernel-open/", "kernel-open/%n", "KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:open_resman"},
	{"usr/share/nvidia-driver/firmware/nvidia/VERSION/", "firmware/%n", "FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp"},
	{"usr/lib/firmware/nvidia/VERSION/", "firmware/%n", "FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp"},
	{"lib/firmware/nvidia/VERSION/", "firmware/%n", "FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp"},
	{"firmware/", "firmware/%n", "FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp"},
	{"licenses/LICENSE", "LICENSE", "DOCUMENTATION NVIDIA_GLX-1.0/ MODULE:installer"},
	{"LICENSE", "LICENSE", "DOCUMENTATION NVIDIA_GLX-1.0/ MODULE:installer"},
	{"usr/share/nvidia-driver/supported-gpus.json", "supported-gpus/supported-gpus.json", "DOCUMENTATION NVIDIA_GLX-1.0/supported-gpus/ MODULE:installer"},
	{"usr/bin/nvidia-modprobe", "nvidia-modprobe", "NVIDIA_MODPROBE /usr/bin/ MODULE:installer"},
	{"usr/bin/nvidia-cuda-mps", "nvidia-cuda-mps%n", "UTILITY_BINARY MODULE:gpgpu"},
	{"usr/bin/nvidia-persistenced", "nvidia-persistenced", "UTILITY_BINARY MODULE:nvpd"},
	{"usr/bin/nvidia-settings", "nvidia-settings", "UTILITY_BINARY MODULE:xutils"},
	{"usr/bin/nvidia-xconfig", "nvidia-xconfig", "UTILITY_BINARY MODULE:xutils"},
	{"usr/bin/nvidia-gridd", "nvidia-gridd", "UTILITY_BINARY MODULE:vgpu"},
	{"usr/bin/nvidia-topologyd", "nvidia-topologyd", "UTILITY_BINARY MODULE:vgpu"},
	{"etc/nvidia/", "%n", "EXPLICIT_PATH /etc/nvidia/ MODULE:vgpu"},
	{"usr/bin/", "%n", "UTILITY_BINARY MODULE:nvml"},
	{"etc/OpenCL/vendors/nvidia.icd", "nvidia.icd", "CUDA_ICD MODULE:gpgpu"},
	{"etc/vulkan/", "%b", "VULKAN_ICD_JSON %d MODULE:opengl"},
	{"usr/share/glvnd/egl_vendor.d/", "%n", "GLVND_EGL_ICD_JSON MODULE:opengl"},
	{"usr/share/egl/egl_external_platform.d/", "%n", "EGL_EXTERNAL_PLATFORM_JSON MODULE:opengl"},
	{"usr/share/nvidia/nvidia-application-profiles", "nvidia-application-profiles%n", "APPLICATION_PROFILE / MODULE:opengl"},
	{"usr/share/nvidia/nvoptix.bin", "nvoptix.bin", "OPENGL_DATA /usr/share/nvidia/ MODULE:optix"},
	{"usr/share/nvidia/files.d/", "%n", "SANDBOXUTILS_FILELIST_JSON / MODULE:nvsandboxutils"},
	{"usr/share/man/", "%b", "MANPAGE %d MODULE:nvml"},
	{"usr/share/doc/NVIDIA_GLX-1.0/", "%n", "DOCUMENTATION NVIDIA_GLX-1.0/%d MODULE:installer"},
	{"usr/lib/systemd/system/", "systemd/system/%n", "SYSTEMD_UNIT MODULE:powerd"},
	{"usr/lib/xorg/modules/drivers/", "%n", "XMODULE_SHARED_LIB drivers/ MODULE:xdriver"},
	{"usr/lib/xorg/modules/extensions/", "%n", "GLX_MODULE_SHARED_LIB extensions/ MODULE:opengl"},
	{"usr/share/X11/xorg.conf.d/", "%n", "XORG_OUTPUTCLASS_CONFIG MODULE:xdriver"},
}

// libraryDirs are the library folders in which a driver may be installed.
var libraryDirs = []struct{ prefix, arch, member string }{
	{"usr/lib/x86_64-linux-gnu/", "NATIVE", ""},
	{"usr/lib/aarch64-linux-gnu/", "NATIVE", ""},
	{"usr/lib64/", "NATIVE", ""},
	{"usr/lib/i386-linux-gnu/", "COMPAT32", "32/"},
	{"usr/lib32/", "COMPAT32", "32/"},
}

// Classify returns, for a path of an installed driver, the name of the member in a .run archive and the rest
// of its manifest line after FILE and MODE. If the path is a symbolic link, target is what it points to;
// otherwise target is empty. Classify accepts the layout of this project's images and that of Debian's
// packages without alternatives. ok is false for a path that does not belong into an archive.
func Classify(name, target, version string) (member, line string, ok bool) {
	for _, dir := range libraryDirs {
		if rest, found := strings.CutPrefix(name, dir.prefix); found {
			return classifyLibrary(rest, target, dir.arch, dir.member)
		}
	}
	for _, f := range folders {
		rest, found := strings.CutPrefix(name, strings.ReplaceAll(f.prefix, "VERSION", version))
		if !found {
			continue
		}
		if target != "" {
			return classifyLink(name, target)
		}
		dir := path.Dir(rest) + "/"
		if dir == "./" {
			dir = ""
		}
		words := strings.NewReplacer("%n", rest, "%d", dir, "%b", path.Base(rest))
		member, line = words.Replace(f.member), words.Replace(f.line)
		if path.Base(member) == "dkms.conf" {
			line = strings.Replace(line, "KERNEL_MODULE_SRC", "DKMS_CONF", 1)
		}
		return member, line, true
	}
	return "", "", false
}

// classifyLink handles the only kind of link outside library folders that manifests have for programs.
func classifyLink(name, target string) (member, line string, ok bool) {
	if path.Dir(name) != "usr/bin" || path.Base(target) != target {
		return "", "", false
	}
	return path.Base(name), "UTILITY_BIN_SYMLINK " + target + " MODULE:installer", true
}

// classifyLibrary handles paths below a library folder.
func classifyLibrary(name, target, arch, prefix string) (member, line string, ok bool) {
	base := path.Base(name)
	switch dir := path.Dir(name); {
	case dir == "gbm" && target != "":
		return base, "GBM_BACKEND_LIB_SYMLINK " + arch + " " + path.Base(target) + " MODULE:nvalloc", true
	case dir == "gbm":
		return prefix + base, "GBM_BACKEND_LIB " + arch + " MODULE:nvalloc", true
	case dir == "nvidia/wine" && target == "":
		return prefix + base, "WINE_LIB " + arch + " MODULE:ngx", true
	case dir == "nvidia/gridd" && target != "":
		return base, "GRID_LIB_SYMLINK " + dir + "/ " + path.Base(target) + " MODULE:vgpu", true
	case dir == "nvidia/gridd":
		return base, "GRID_LIB " + dir + "/ MODULE:vgpu", true
	case dir != "." && dir != "vdpau" || !strings.HasPrefix(base, "lib"):
		return "", "", false
	}
	for _, l := range libraryTypes {
		if !strings.HasPrefix(base, l.prefix) {
			continue
		}
		words := []string{l.typ, arch}
		if target != "" {
			if words[0], ok = linkTypes[l.typ]; !ok {
				words[0] = l.typ + "_SYMLINK"
			}
		}
		if l.path == "vdpau/" && path.Dir(name) == "." {
			words = append(words, "/")
		} else if l.path != "" {
			words = append(words, l.path)
		}
		if target != "" {
			words = append(words, target)
		}
		return prefix + base, strings.Join(append(words, "MODULE:"+l.tag), " "), true
	}
	return "", "", false
}
