package runfile

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// File is one path of an installed driver.
type File struct {
	// Path is clean and relative to the root of the image.
	Path string
	// Source is the member of the archive that has the content; empty for links.
	Source string
	// Link is the target of a symbolic link, always relative; empty for files.
	Link string
	// Mode is the manifest's mode, and fs.ModeSymlink|0777 for links. The owner is always root.
	Mode fs.FileMode
	// Type, Arch and Tag come from the manifest, for the choice of components.
	Type string
	Arch Arch
	Tag  string
	// Rewrite is not nil for a template: it turns the content in the archive into the content to install. Real
	// templates are a few kilobytes; read at most a megabyte for it.
	Rewrite func(content []byte) []byte
	// Line is the line of the manifest that has the file.
	Line int
}

// Install returns the driver's files with their paths on a system of that layout, in the manifest's order:
// both kernel source trees (below usr/src/nvidia-<version>/, each under its own name), firmware, and
// everything else. Of alternatives it takes the GLVND client libraries and the NEW thread-local storage
// library, as NVIDIA's installer does on any system of the last ten years. Two entries with different content
// for one path are a *[ManifestError].
func (m *Manifest) Install(l Layout) ([]File, error) {
	l, err := l.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("install driver %s: %w", m.Version, err)
	}
	files := make([]File, 0, len(m.Entries))
	at := make(map[string]int, len(m.Entries))
	newTLS := m.newTLS()
	for _, e := range m.Entries {
		if e.Arch == Compat32 && l.LibDir32 == "" || e.GLVND == "NON_GLVND" || e.TLS == "CLASSIC" && newTLS[tlsKey(e)] {
			continue
		}
		f, err := m.fileFor(l, e)
		if err != nil {
			return nil, err
		}
		if i, taken := at[f.Path]; taken {
			if old := files[i]; old.Source != f.Source || old.Link != f.Link {
				return nil, m.errorf(e, "it goes to %s, which line %d fills already", f.Path, old.Line)
			}
			continue
		}
		at[f.Path] = len(files)
		files = append(files, f)
	}
	return files, m.nesting(files, at)
}

// nesting refuses files below files.
func (m *Manifest) nesting(files []File, at map[string]int) error {
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if i, taken := at[dir]; taken {
				return m.errorf(Entry{Line: f.Line, File: f.Path, Type: f.Type}, "it goes below %s, which line %d makes a file", dir, files[i].Line)
			}
		}
	}
	return nil
}

// tlsKey returns a key for a thread-local storage library that both of its variants share.
func tlsKey(e Entry) string { return string(e.Arch) + " " + path.Base(e.File) }

// newTLS returns the libraries that have a NEW variant. Up to R410 there were two variants: one for the
// threads of Linux 2.4, one for present ones.
func (m *Manifest) newTLS() map[string]bool {
	found := make(map[string]bool)
	for _, e := range m.Entries {
		if e.TLS == "NEW" {
			found[tlsKey(e)] = true
		}
	}
	return found
}

// fileFor applies the rule of an entry's type.
func (m *Manifest) fileFor(l Layout, e Entry) (File, error) {
	r, known := lookupRule(e.Type)
	if !known {
		return File{}, m.errorf(e, "unknown type")
	}
	dir, err := l.expand(r.dest, m.Version, e)
	if err != nil {
		return File{}, m.errorf(e, "%v", err)
	}
	f := File{Path: path.Join(dir, path.Base(e.File)), Source: e.File, Mode: e.Mode, Type: e.Type, Arch: e.Arch, Tag: e.Tag, Line: e.Line}
	if f.Path == dir || f.Path == "." || len(f.Path) > maxName {
		return File{}, m.errorf(e, "it has no usable file name")
	}
	if e.Link() {
		return m.link(l, e, r, f)
	}
	dest, list := m.template(r.template, f)
	f.Path, f.Rewrite = dest, rewriter(list)
	return f, nil
}

// link completes a link. The manifest gives the target relative to the link's own directory (or that of the
// rule); link turns it into a relative path that stays inside the image.
func (m *Manifest) link(l Layout, e Entry, r rule, f File) (File, error) {
	base := path.Dir(f.Path)
	if r.base != "" {
		var err error
		if base, err = l.expand(r.base, m.Version, e); err != nil {
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
	switch clean, err := cleanName(full); {
	case err != nil:
		return f, m.errorf(e, "link target %q leads out of the image", clip(target))
	case clean == f.Path || clean == ".":
		return f, m.errorf(e, "link target %q is the link itself", clip(target))
	}
	f.Source, f.Link, f.Mode = "", linkTarget(f.Path, full), fs.ModeSymlink|fs.ModePerm
	return f, nil
}
