package runfile

import (
	"fmt"
	"path"
	"strings"
)

// replacement is a text to replace wherever it occurs.
type replacement struct{ old, new string }

// rewriter returns a function that makes the replacements; nil for none.
func rewriter(list []replacement) func([]byte) []byte {
	if len(list) == 0 {
		return nil
	}
	pairs := make([]string, 0, 2*len(list))
	for _, r := range list {
		pairs = append(pairs, r.old, r.new)
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

// template returns the destination of a file and the replacements in it.
func (m *Manifest) template(kind templateKind, f File) (dest string, replace []replacement) {
	switch kind {
	case desktopFile:
		return f.Path, []replacement{{"__UTILS_PATH__", "/usr/bin"}, {"__PIXMAP_PATH__", "/usr/share/pixmaps"}}
	case vulkanICD:
		// 384.47 to 430 ship a template, because the library depends on the choice of GLVND; later versions ship a
		// finished file.
		name, isTemplate := strings.CutSuffix(f.Path, ".template")
		if !isTemplate {
			return f.Path, nil
		}
		return name, []replacement{{"__NV_VK_ICD__", "libGLX_nvidia.so.0"}}
	case libtoolArchive:
		return f.Path, []replacement{{"__LIBGL_PATH__", "/" + path.Dir(f.Path)}, {"__GENERATED_BY__", "driver-build"}}
	case dkmsConf:
		return f.Path, m.dkms()
	}
	return f.Path, nil
}

// dkms returns the replacements that complete a dkms.conf, so that dkms can use the source tree in the image.
// The compiler check is off, as everywhere in a driver container: the image has its own compiler.
func (m *Manifest) dkms() []replacement {
	var modules strings.Builder
	for i, module := range m.Modules {
		fmt.Fprintf(&modules, "BUILT_MODULE_NAME[%d]=\"%s\"\nDEST_MODULE_LOCATION[%d]=\"/kernel/drivers/video\"\n", i, module, i)
	}
	return []replacement{
		{"__VERSION_STRING", m.Version},
		{"__DKMS_MODULES", strings.TrimSuffix(modules.String(), "\n")},
		{"__JOBS", "$(nproc)"},
		{"__EXCLUDE_MODULES", ""},
		{"__IGNORE_CC_MISMATCH", "1"},
		{"will be generated", "was generated"},
	}
}
