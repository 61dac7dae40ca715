package runfile

import "strings"

// rule says how to read the entries of one manifest type and where its files go. A new type of
// NVIDIA's is one more word in the table below.
type rule struct {
	// fields lists the words after FILE, MODE and TYPE in their order, one letter each. Capital
	// letters are mandatory, small letters optional:
	//   A a  NATIVE or COMPAT32
	//   c    CLASSIC or NEW, of the thread-local storage libraries up to R410
	//   P p  a path
	//   D    INHERIT_PATH_DEPTH:n instead of a path
	//   L    the target of a link
	//   g    GLVND or NON_GLVND, R361 to R430
	fields string
	// dest is the destination directory; see Layout.expand for the words in braces.
	dest string
	// base, when set, replaces dest as the directory that the target of a link is relative to.
	base string
}

// rules is the table of manifest types of nvidia-installer 384 to 590: the fields come from its
// manifest.c, the destinations from its files.c. Types that NVIDIA removed over time stay, because
// their drivers are still built. A line of SYSTEMD_UNIT_SYMLINK has no target, which is the unit of
// the same name. KERNEL_MODULE is in no archive: installers write such lines for modules that they
// built, and it gets a place where no kernel looks.
var rules = func() map[string]rule {
	all := map[string]rule{}
	for _, r := range []struct{ fields, dest, base, types string }{
		{"AP", "{lib}/{path}", "", "CUDA_LIB OPENCL_LIB OPENCL_WRAPPER_LIB VDPAU_LIB"},
		{"APL", "{lib}/{path}", "", "CUDA_SYMLINK OPENCL_LIB_SYMLINK OPENCL_WRAPPER_SYMLINK VDPAU_SYMLINK"},
		{"", "etc/OpenCL/vendors", "", "CUDA_ICD"},
		{"A", "{lib}", "", "NVCUVID_LIB ENCODEAPI_LIB NVIFR_LIB UTILITY_LIB OPENGL_LIB LIBGL_LA GLVND_LIB"},
		{"AL", "{lib}", "", "NVCUVID_LIB_SYMLINK ENCODEAPI_LIB_SYMLINK NVIFR_LIB_SYMLINK UTILITY_LIB_SYMLINK OPENGL_SYMLINK " +
			"GLVND_SYMLINK"},
		{"A", "{lib}/nvidia/wine", "", "WINE_LIB"},
		{"P", "{path}", "", "OPENGL_DATA NVIDIA_MODPROBE EXPLICIT_PATH"},
		{"P", "usr/include/{path}", "", "OPENGL_HEADER"},
		{"AcP", "{lib}/{path}", "", "TLS_LIB"},
		{"AcPL", "{lib}/{path}", "", "TLS_SYMLINK"},
		{"Ag", "{lib}", "", "GLX_CLIENT_LIB EGL_CLIENT_LIB"},
		{"ALg", "{lib}", "", "GLX_CLIENT_SYMLINK EGL_CLIENT_SYMLINK"},
		{"A", "{lib}/gbm", "", "GBM_BACKEND_LIB"},
		{"AL", "{lib}/gbm", "{lib}", "GBM_BACKEND_LIB_SYMLINK"},
		{"p", "etc/allocator/{path}", "", "ALLOCATOR_JSON"},
		{"p", "etc/vulkan/{path|icd.d}", "", "VULKAN_ICD_JSON"},
		{"P", "etc/vulkansc/{path}", "", "VULKANSC_ICD_JSON"},
		{"", "usr/share/glvnd/egl_vendor.d", "", "GLVND_EGL_ICD_JSON"},
		{"", "usr/share/egl/egl_external_platform.d", "", "EGL_EXTERNAL_PLATFORM_JSON"},
		{"P", "usr/share/nvidia/{path}", "", "APPLICATION_PROFILE"},
		{"P", "usr/lib/xorg/modules/{path}", "", "XMODULE_SHARED_LIB GLX_MODULE_SHARED_LIB"},
		{"PL", "usr/lib/xorg/modules/{path}", "", "XMODULE_SYMLINK XMODULE_NEWSYM GLX_MODULE_SYMLINK"},
		{"", "usr/share/X11/xorg.conf.d", "", "XORG_OUTPUTCLASS_CONFIG"},
		{"P", "usr/share/applications", "", "DOT_DESKTOP"},
		{"P", "usr/share/icons/hicolor/{path}", "", "ICON"},
		{"", "usr/bin", "", "UTILITY_BINARY INSTALLER_BINARY"},
		{"L", "usr/bin", "", "UTILITY_BIN_SYMLINK"},
		{"P", "usr/share/man/{path}", "", "NVIDIA_MODPROBE_MANPAGE MANPAGE"},
		{"P", "usr/share/doc/{path}", "", "DOCUMENTATION"},
		{"a", "usr/lib/nvidia/{32}", "", "INTERNAL_UTILITY_BINARY INTERNAL_UTILITY_LIB INTERNAL_UTILITY_DATA"},
		{"P", "usr/share/nvidia/files.d/{path}", "", "SANDBOXUTILS_FILELIST_JSON"},
		{"", "usr/lib/systemd/system", "", "SYSTEMD_UNIT"},
		{"", "usr/lib/systemd/system-sleep", "", "SYSTEMD_SLEEP_SCRIPT"},
		{"P", "etc/systemd/system/{path}", "usr/lib/systemd/system", "SYSTEMD_UNIT_SYMLINK"},
		{"D", "usr/src/nvidia-{version}/{dir}", "", "KERNEL_MODULE_SRC DKMS_CONF"},
		{"", "usr/lib/nvidia/modules", "", "KERNEL_MODULE"},
		{"", "usr/share/nvidia", "", "MODULE_SIGNING_KEY"},
		{"", "{lib}", "", "VGX_LIB"},
		{"L", "{lib}", "", "VGX_LIB_SYMLINK"},
		{"P", "{lib}/{path}", "", "GRID_LIB FLEXERA_LIB"},
		{"PL", "{lib}/{path}", "", "GRID_LIB_SYMLINK FLEXERA_LIB_SYMLINK"},
		{"D", "{firmware}/nvidia/{version}/{inherited}", "", "FIRMWARE"},
	} {
		for typ := range strings.FieldsSeq(r.types) {
			all[typ] = rule{r.fields, r.dest, r.base}
		}
	}
	return all
}()

// familyRule is for further types of the vGPU host and guest packages: those packages are not
// public, and may have types that the public installer does not know.
var (
	familyPrefixes = []string{"VGX_", "GRID_", "FLEXERA_"}
	familyRule     = rule{fields: "ap", dest: "{lib}/{path}"}
	familyLinkRule = rule{fields: "apL", dest: "{lib}/{path}"}
)

// lookupRule returns the rule of a type.
func lookupRule(typ string) (rule, bool) {
	if r, ok := rules[typ]; ok {
		return r, true
	}
	for _, prefix := range familyPrefixes {
		if strings.HasPrefix(typ, prefix) && len(typ) > len(prefix) {
			if isLinkType(typ) {
				return familyLinkRule, true
			}
			return familyRule, true
		}
	}
	return rule{}, false
}

// isLinkType reports whether entries of the type are links, which have no file in the tar.
func isLinkType(typ string) bool {
	return strings.HasSuffix(typ, "_SYMLINK") || typ == "XMODULE_NEWSYM"
}
