package makeself

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// FromTree makes an archive of an installed driver: fsys is the root of a tree with the driver, laid out as
// an image of this project or as Debian's packages. skipped lists the paths that do not belong into an
// archive, such as copyright files. The tree is read again when the archive is written.
//
// As in NVIDIA's archives, some members are not in the manifest.
func FromTree(fsys fs.FS, version, arch string) (a *Archive, skipped []string, err error) {
	a = &Archive{Version: version, Arch: arch}
	for _, name := range []string{"makeself.sh", "pkg-history.txt"} {
		text := []byte("# a stand-in for " + name + "\n")
		a.Members = append(a.Members, Member{Name: name, Mode: 0o644, Size: int64(len(text)), Open: Bytes(text)})
	}
	have := make(map[string]string)
	err = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		m, ok, err := member(fsys, name, d, version)
		if err != nil {
			return err
		}
		if !ok {
			skipped = append(skipped, name)
			return nil
		}
		key := m.Name
		if m.Open == nil {
			key = m.Name + " -> " + m.Line
		}
		if old, twice := have[key]; twice {
			return fmt.Errorf("%s and %s are the same member %s", old, name, m.Name)
		}
		have[key] = name
		a.Members = append(a.Members, m)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make an archive of driver %s: %w", version, err)
	}
	return a, skipped, nil
}

// member classifies one path. ok is false for a path that does not belong into an archive.
func member(fsys fs.FS, name string, d fs.DirEntry, version string) (m Member, ok bool, err error) {
	target := ""
	switch d.Type() {
	case fs.ModeSymlink:
		if target, err = fs.ReadLink(fsys, name); err != nil {
			return m, false, err
		}
	case 0:
	default:
		return m, false, nil
	}
	m.Name, m.Line, ok = Classify(name, target, version)
	if !ok || target != "" {
		return m, ok, nil
	}
	info, err := d.Info()
	if err != nil {
		return m, false, err
	}
	m.Size = info.Size()
	m.Mode = manifestMode(m, info.Mode())
	m.Open = func() (io.ReadCloser, error) { return fsys.Open(name) }
	return m, true, nil
}

// manifestMode returns the mode in the manifest: NVIDIA's manifests have libraries and programs at 0755,
// kernel sources at 0644, most other files at 0444. Packages have libraries at 0644.
func manifestMode(m Member, have fs.FileMode) fs.FileMode {
	typ, _, _ := strings.Cut(m.Line, " ")
	switch {
	case strings.HasSuffix(typ, "_LIB"), strings.HasSuffix(typ, "_BINARY"), typ == "NVIDIA_MODPROBE":
		return 0o755
	case typ == "DOCUMENTATION", typ == "MANPAGE", typ == "CUDA_ICD":
		return 0o444
	}
	return have.Perm()
}
