package runfile

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// File is one path of an installed driver.
type File struct {
	Path   string // clean and relative to the root of the image
	Source string // the member of the archive that has the content; "" for links
	Link   string // the target of a symbolic link, always relative; "" for files
	// the manifest's, and fs.ModeSymlink|0777 for links. The owner is always root
	Mode fs.FileMode
	Line int // of the manifest
	// Rewrite is not nil for a template: it turns the content in the archive into the content to
	// install. Real templates are a few kilobytes; read at most a megabyte for it.
	Rewrite func(content []byte) []byte
}

// Install returns the driver's files with their paths on a system of that layout, in the manifest's
// order: both kernel source trees (below usr/src/nvidia-<version>/, each under its own name),
// firmware, and everything else. Of alternatives it takes the GLVND client libraries and the NEW
// thread-local storage library, as NVIDIA's installer does on any system of the last ten years. Two
// entries with different content for one path are an [ErrManifest].
func (m *Manifest) Install(l Layout) ([]File, error) {
	files := make([]File, 0, len(m.Entries))
	at := make(map[string]int, len(m.Entries))
	// Up to R410 thread-local storage libraries had two variants: one for the threads of Linux 2.4,
	// one for present ones.
	newTLS := map[string]bool{}
	library := func(e Entry) string { return e.Arch + " " + path.Base(e.File) }
	for _, e := range m.Entries {
		newTLS[library(e)] = newTLS[library(e)] || e.TLS == "NEW"
	}
	for _, e := range m.Entries {
		if e.Arch == Compat32 && l.LibDir32 == "" || e.GLVND == "NON_GLVND" ||
			e.TLS == "CLASSIC" && newTLS[library(e)] {
			continue
		}
		f, err := m.fileFor(l, e)
		if err != nil {
			return nil, err
		}
		if i, taken := at[f.Path]; taken {
			if old := files[i]; old.Source != f.Source || old.Link != f.Link {
				return nil, m.errorf(
					e,
					"it goes to %s, which line %d fills already",
					f.Path,
					old.Line,
				)
			}
			continue
		}
		at[f.Path] = len(files)
		files = append(files, f)
	}
	return files, nil
}

// fileFor applies the rule of an entry's type.
func (m *Manifest) fileFor(l Layout, e Entry) (File, error) {
	r, _ := lookupRule(e.Type) // ParseManifest refuses an unknown one
	dir, err := l.expand(r.dest, m.Version, e)
	if err != nil {
		return File{}, m.errorf(e, "%v", err)
	}
	f := File{Path: path.Join(dir, path.Base(e.File)), Source: e.File, Mode: e.Mode, Line: e.Line}
	if f.Path == dir || f.Path == "." || len(f.Path) > maxName {
		return File{}, m.errorf(e, "it has no usable file name")
	}
	if e.Link() {
		return m.link(l, e, r, f)
	}
	m.template(&f, e.Type)
	return f, nil
}

// link completes a link. The manifest gives the target relative to the link's own directory (or
// that of the rule); link turns it into a relative path that stays inside the image.
func (m *Manifest) link(l Layout, e Entry, r rule, f File) (File, error) {
	var err error
	base := path.Dir(f.Path)
	if r.base != "" {
		base, err = l.expand(r.base, m.Version, e)
		if err != nil {
			return f, m.errorf(e, "%v", err)
		}
	}
	target := e.Target
	if target == "" {
		target = path.Base(e.File)
	}
	full := path.Join(base, target)
	if strings.HasPrefix(target, "/") {
		full = strings.TrimPrefix(path.Clean(target), "/")
	}
	switch clean, wrong := cleanName(full); {
	case wrong != nil:
		return f, m.errorf(e, "link target %q leads out of the image", clip(target))
	case clean == f.Path || clean == ".":
		return f, m.errorf(e, "link target %q is the link itself", clip(target))
	}
	f.Source = ""
	f.Mode = fs.ModeSymlink | fs.ModePerm
	f.Link, err = filepath.Rel(path.Dir(f.Path), full)
	return f, err
}

// template completes a file whose content must be rewritten.
func (m *Manifest) template(f *File, typ string) {
	var replace []string
	switch typ {
	case "DOT_DESKTOP":
		replace = []string{"__UTILS_PATH__", "/usr/bin", "__PIXMAP_PATH__", "/usr/share/pixmaps"}
	case "VULKAN_ICD_JSON":
		// 384.47 to 430 ship a template, because the library depends on the choice of GLVND; later
		// versions ship a finished file.
		name, isTemplate := strings.CutSuffix(f.Path, ".template")
		if !isTemplate {
			return
		}
		f.Path = name
		replace = []string{"__NV_VK_ICD__", "libGLX_nvidia.so.0"}
	case "LIBGL_LA":
		replace = []string{
			"__LIBGL_PATH__",
			"/" + path.Dir(f.Path),
			"__GENERATED_BY__",
			"driver-build",
		}
	case "DKMS_CONF":
		replace = m.dkms()
	default:
		return
	}
	f.Rewrite = func(content []byte) []byte { return []byte(strings.NewReplacer(replace...).Replace(string(content))) }
}

// dkms returns the replacements that complete a dkms.conf, so that dkms can use the source tree in
// the image. The compiler check is off, as everywhere in a driver container: the image has its own
// compiler.
func (m *Manifest) dkms() []string {
	var modules []string
	for i, module := range m.Modules {
		modules = append(
			modules,
			fmt.Sprintf(
				"BUILT_MODULE_NAME[%d]=\"%s\"\nDEST_MODULE_LOCATION[%d]=\"/kernel/drivers/video\"",
				i,
				module,
				i,
			),
		)
	}
	return []string{
		"__VERSION_STRING", m.Version, "__DKMS_MODULES", strings.Join(modules, "\n"), "__JOBS", "$(nproc)",
		"__EXCLUDE_MODULES", "", "__IGNORE_CC_MISMATCH", "1", "will be generated", "was generated",
	}
}

// Layout has the directories of a target system. All paths are relative to the image's root,
// without a leading slash.
type Layout struct {
	LibDir      string // native libraries: usr/lib/x86_64-linux-gnu, usr/lib64
	LibDir32    string // 32-bit libraries; "": their entries are left out
	FirmwareDir string // gets nvidia/<version>/ below it
}

// expand replaces the words in braces of a rule's directory:
//
//	{lib} {firmware}
//	              directories of the layout; {lib} depends on the entry's architecture
//	{version}     the driver's version
//	{path}        the entry's path word; {path|icd.d} gives a default for entries without one
//	{dir}         the directory of the entry's file in the archive
//	{inherited}   the same without its first INHERIT_PATH_DEPTH directories
//	{32}          "32" for 32-bit entries, nothing otherwise
func (l Layout) expand(dest, version string, e Entry) (string, error) {
	lib := l.LibDir
	thirtyTwo := ""
	if e.Arch == Compat32 {
		lib = l.LibDir32
		thirtyTwo = "32"
	}
	dir := path.Dir(e.File)
	inherited := strings.Split(dir, "/")
	inherited = inherited[min(e.Depth, len(inherited)):]
	where := e.Path
	if e.TLS == "NEW" {
		// The path here is tls/, a directory that loaders since glibc 2.37 do not search.
		where = ""
	}
	if before, fallback, ok := strings.Cut(dest, "{path|"); ok {
		dest = before + strings.TrimSuffix(fallback, "}")
		if where != "" {
			dest = before + "{path}"
		}
	}
	full := strings.NewReplacer("{lib}", lib, "{firmware}", l.FirmwareDir, "{version}", version, "{path}", where, "{dir}", dir,
		"{inherited}", strings.Join(inherited, "/"), "{32}", thirtyTwo).
		Replace(dest)
	// A path word may begin and end with slashes. No real manifest has "..", even where the path
	// would stay inside.
	clean, err := cleanName(cmp.Or(strings.Trim(full, "/"), "."))
	if err != nil {
		return "", fmt.Errorf("path %q %w", clip(full), err)
	}
	return clean, nil
}
