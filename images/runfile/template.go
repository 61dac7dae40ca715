package runfile

import (
	"fmt"
	"path"
	"strings"
)

// rewriter returns a function that replaces each first text of a pair by its second, wherever it occurs; nil
// for no pairs.
func rewriter(pairs []string) func([]byte) []byte {
	if len(pairs) == 0 {
		return nil
	}
	return func(content []byte) []byte { return []byte(strings.NewReplacer(pairs...).Replace(string(content))) }
}

// templateKind says which tokens a file has.
type templateKind int

const (
	noTemplate templateKind = iota
	desktopFile
	vulkanICD
	libtoolArchive
	dkmsConf
)

// template returns the destination of a file and the pairs of texts to replace in it.
func (m *Manifest) template(kind templateKind, f File) (dest string, replace []string) {
	switch kind {
	case desktopFile:
		return f.Path, []string{"__UTILS_PATH__", "/usr/bin", "__PIXMAP_PATH__", "/usr/share/pixmaps"}
	case vulkanICD:
		// 384.47 to 430 ship a template, because the library depends on the choice of GLVND; later versions ship a
		// finished file.
		name, isTemplate := strings.CutSuffix(f.Path, ".template")
		if !isTemplate {
			return f.Path, nil
		}
		return name, []string{"__NV_VK_ICD__", "libGLX_nvidia.so.0"}
	case libtoolArchive:
		return f.Path, []string{"__LIBGL_PATH__", "/" + path.Dir(f.Path), "__GENERATED_BY__", "driver-build"}
	case dkmsConf:
		return f.Path, m.dkms()
	}
	return f.Path, nil
}

// dkms returns the replacements that complete a dkms.conf, so that dkms can use the source tree in the image.
// The compiler check is off, as everywhere in a driver container: the image has its own compiler.
func (m *Manifest) dkms() []string {
	var modules strings.Builder
	for i, module := range m.Modules {
		fmt.Fprintf(&modules, "BUILT_MODULE_NAME[%d]=\"%s\"\nDEST_MODULE_LOCATION[%d]=\"/kernel/drivers/video\"\n", i, module, i)
	}
	return []string{
		"__VERSION_STRING", m.Version,
		"__DKMS_MODULES", strings.TrimSuffix(modules.String(), "\n"),
		"__JOBS", "$(nproc)",
		"__EXCLUDE_MODULES", "",
		"__IGNORE_CC_MISMATCH", "1",
		"will be generated", "was generated",
	}
}
