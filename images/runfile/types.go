package runfile

import "strings"

// rule says how to read the entries of one manifest type and where its files go. A new type of NVIDIA's is
// one more line in the table below.
type rule struct {
	// fields lists the words after FILE, MODE and TYPE in their order, one letter each. Capital letters are
	// mandatory, small letters optional:
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

// Destinations of several types.
const (
	toLib      = "{lib}"
	toLibPath  = "{lib}/{path}"
	toBin      = "usr/bin"
	toMan      = "usr/share/man/{path}"
	toXModules = "usr/lib/xorg/modules/{path}"
	toPath     = "{path}"
	toUnits    = "usr/lib/systemd/system"
	toPrivate  = "usr/lib/nvidia/{32}"
	toSource   = "usr/src/nvidia-{version}/{dir}"
)

// rules is the table of manifest types of nvidia-installer 384 to 590: the fields come from its manifest.c,
// the destinations from its files.c. Types that NVIDIA removed over time stay, because their drivers are
// still built.
var rules = map[string]rule{
	// Compute.
	"CUDA_LIB":               {fields: "AP", dest: toLibPath},
	"CUDA_SYMLINK":           {fields: "APL", dest: toLibPath},
	"CUDA_ICD":               {dest: "etc/OpenCL/vendors"},
	"OPENCL_LIB":             {fields: "AP", dest: toLibPath},
	"OPENCL_LIB_SYMLINK":     {fields: "APL", dest: toLibPath},
	"OPENCL_WRAPPER_LIB":     {fields: "AP", dest: toLibPath},
	"OPENCL_WRAPPER_SYMLINK": {fields: "APL", dest: toLibPath},

	// Video, capture and the rest of the libraries.
	"NVCUVID_LIB":           {fields: "A", dest: toLib},
	"NVCUVID_LIB_SYMLINK":   {fields: "AL", dest: toLib},
	"ENCODEAPI_LIB":         {fields: "A", dest: toLib},
	"ENCODEAPI_LIB_SYMLINK": {fields: "AL", dest: toLib},
	"NVIFR_LIB":             {fields: "A", dest: toLib},
	"NVIFR_LIB_SYMLINK":     {fields: "AL", dest: toLib},
	"UTILITY_LIB":           {fields: "A", dest: toLib},
	"UTILITY_LIB_SYMLINK":   {fields: "AL", dest: toLib},
	"VDPAU_LIB":             {fields: "AP", dest: toLibPath},
	"VDPAU_SYMLINK":         {fields: "APL", dest: toLibPath},
	"WINE_LIB":              {fields: "A", dest: "{lib}/nvidia/wine"},

	// Graphics.
	"OPENGL_LIB":                 {fields: "A", dest: toLib},
	"OPENGL_SYMLINK":             {fields: "AL", dest: toLib},
	"OPENGL_DATA":                {fields: "P", dest: toPath},
	"OPENGL_HEADER":              {fields: "P", dest: "usr/include/{path}"},
	"LIBGL_LA":                   {fields: "A", dest: toLib},
	"TLS_LIB":                    {fields: "AcP", dest: toLibPath},
	"TLS_SYMLINK":                {fields: "AcPL", dest: toLibPath},
	"GLVND_LIB":                  {fields: "A", dest: toLib},
	"GLVND_SYMLINK":              {fields: "AL", dest: toLib},
	"GLX_CLIENT_LIB":             {fields: "Ag", dest: toLib},
	"GLX_CLIENT_SYMLINK":         {fields: "ALg", dest: toLib},
	"EGL_CLIENT_LIB":             {fields: "Ag", dest: toLib},
	"EGL_CLIENT_SYMLINK":         {fields: "ALg", dest: toLib},
	"GBM_BACKEND_LIB":            {fields: "A", dest: "{lib}/gbm"},
	"GBM_BACKEND_LIB_SYMLINK":    {fields: "AL", dest: "{lib}/gbm", base: toLib},
	"ALLOCATOR_JSON":             {fields: "p", dest: "etc/allocator/{path}"},
	"VULKAN_ICD_JSON":            {fields: "p", dest: "etc/vulkan/{path|icd.d}"},
	"VULKANSC_ICD_JSON":          {fields: "P", dest: "etc/vulkansc/{path}"},
	"GLVND_EGL_ICD_JSON":         {dest: "usr/share/glvnd/egl_vendor.d"},
	"EGL_EXTERNAL_PLATFORM_JSON": {dest: "usr/share/egl/egl_external_platform.d"},
	"APPLICATION_PROFILE":        {fields: "P", dest: "usr/share/nvidia/{path}"},

	// X.
	"XMODULE_SHARED_LIB":      {fields: "P", dest: toXModules},
	"XMODULE_SYMLINK":         {fields: "PL", dest: toXModules},
	"XMODULE_NEWSYM":          {fields: "PL", dest: toXModules},
	"GLX_MODULE_SHARED_LIB":   {fields: "P", dest: toXModules},
	"GLX_MODULE_SYMLINK":      {fields: "PL", dest: toXModules},
	"XORG_OUTPUTCLASS_CONFIG": {dest: "usr/share/X11/xorg.conf.d"},
	"DOT_DESKTOP":             {fields: "P", dest: "usr/share/applications"},
	"ICON":                    {fields: "P", dest: "usr/share/icons/hicolor/{path}"},

	// Programs and their files.
	"UTILITY_BINARY":             {dest: toBin},
	"UTILITY_BIN_SYMLINK":        {fields: "L", dest: toBin},
	"INSTALLER_BINARY":           {dest: toBin},
	"NVIDIA_MODPROBE":            {fields: "P", dest: toPath},
	"NVIDIA_MODPROBE_MANPAGE":    {fields: "P", dest: toMan},
	"MANPAGE":                    {fields: "P", dest: toMan},
	"DOCUMENTATION":              {fields: "P", dest: "usr/share/doc/{path}"},
	"EXPLICIT_PATH":              {fields: "P", dest: toPath},
	"INTERNAL_UTILITY_BINARY":    {fields: "a", dest: toPrivate},
	"INTERNAL_UTILITY_LIB":       {fields: "a", dest: toPrivate},
	"INTERNAL_UTILITY_DATA":      {fields: "a", dest: toPrivate},
	"SANDBOXUTILS_FILELIST_JSON": {fields: "P", dest: "usr/share/nvidia/files.d/{path}"},
	"SYSTEMD_UNIT":               {dest: toUnits},
	"SYSTEMD_SLEEP_SCRIPT":       {dest: "usr/lib/systemd/system-sleep"},
	// Its line has no target: the target is the unit of the same name.
	"SYSTEMD_UNIT_SYMLINK": {fields: "P", dest: "etc/systemd/system/{path}", base: toUnits},

	// Kernel.
	"KERNEL_MODULE_SRC": {fields: "D", dest: toSource},
	"DKMS_CONF":         {fields: "D", dest: toSource},
	// No archive has it: installers write such lines for modules that they built. It gets a place where no
	// kernel looks.
	"KERNEL_MODULE":      {dest: "usr/lib/nvidia/modules"},
	"MODULE_SIGNING_KEY": {dest: "usr/share/nvidia"},

	// vGPU guests and hosts.
	"VGX_LIB":             {dest: toLib},
	"VGX_LIB_SYMLINK":     {fields: "L", dest: toLib},
	"GRID_LIB":            {fields: "P", dest: toLibPath},
	"GRID_LIB_SYMLINK":    {fields: "PL", dest: toLibPath},
	"FLEXERA_LIB":         {fields: "P", dest: toLibPath},
	"FLEXERA_LIB_SYMLINK": {fields: "PL", dest: toLibPath},
	"FIRMWARE":            {fields: "D", dest: "{firmware}/nvidia/{version}/{inherited}"},
}

// familyRule is for further types of the vGPU host and guest packages: those packages are not public, and may
// have types that the public installer does not know.
var (
	familyPrefixes = []string{"VGX_", "GRID_", "FLEXERA_"}
	familyRule     = rule{fields: "ap", dest: toLibPath}
	familyLinkRule = rule{fields: "apL", dest: toLibPath}
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
