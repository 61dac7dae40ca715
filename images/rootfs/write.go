package rootfs

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// WriteTar writes the entries of this tree, without those of the lower one, as an image layer:
// sorted, with mtime for entries without a time of their own, with numeric owners, and with
// directories of mode 0755 for parents that neither tree has. The same tree gives the same bytes.
func (t *Tree) WriteTar(ctx context.Context, w io.Writer, mtime time.Time) error {
	tw := tar.NewWriter(w)
	buf := make([]byte, 256<<10)
	first := map[*section]string{}
	for _, e := range t.withParents() {
		if err := ctx.Err(); err != nil {
			return err
		}
		hdr := header(e, mtime)
		if e.Kind == File && e.content != nil && e.Size > 0 {
			if name, ok := first[e.content]; ok {
				hdr.Typeflag = tar.TypeLink
				hdr.Linkname = name
				hdr.Size = 0
			} else {
				first[e.content] = e.Path
			}
		}
		err := tw.WriteHeader(hdr)
		if err == nil && hdr.Size > 0 {
			_, err = io.CopyBuffer(
				struct{ io.Writer }{tw},
				struct{ io.Reader }{e.content.open()},
				buf,
			)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", e.Path, err)
		}
	}
	return tw.Close()
}

func header(e *Entry, mtime time.Time) *tar.Header {
	hdr := &tar.Header{
		Name:       e.Path,
		Mode:       UnixMode(e.Mode),
		ModTime:    mtime,
		Uid:        e.UID,
		Gid:        e.GID,
		Format:     tar.FormatPAX,
		PAXRecords: records(e.Xattrs),
	}
	if !e.Time.IsZero() {
		hdr.ModTime = e.Time
	}
	switch e.Kind {
	case Dir:
		hdr.Typeflag = tar.TypeDir
		hdr.Name = e.Path + "/"
	case Link:
		hdr.Typeflag = tar.TypeSymlink
		hdr.Linkname = e.Target
		hdr.Mode = 0o777
	case Deleted:
		hdr.Typeflag = tar.TypeReg
		hdr.Mode = 0o644
		hdr.Name = path.Join(path.Dir(e.Path), whiteout+path.Base(e.Path))
	case Special:
		word, numbers, _ := strings.Cut(e.Target, " device ")
		for flag, name := range specials {
			if name == word {
				hdr.Typeflag = flag
			}
		}
		_, _ = fmt.Sscanf(numbers, "%d,%d", &hdr.Devmajor, &hdr.Devminor) // a FIFO has none
	default:
		hdr.Typeflag = tar.TypeReg
		hdr.Size = e.Size
		if e.ContentOmitted {
			hdr.Size = 0
			hdr.PAXRecords[paxElided] = "1"
		}
	}
	return hdr
}

// withParents returns the entries in tar order, with the directories for which no tree has an
// entry.
func (t *Tree) withParents() []*Entry {
	all := maps.Clone(t.entries)
	for p := range t.entries {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir]; ok {
				continue
			}
			if t.lower != nil {
				if _, ok := t.lower.Lstat(dir); ok {
					continue
				}
			}
			all[dir] = &Entry{Path: dir, Kind: Dir, Mode: 0o755}
		}
	}
	out := make([]*Entry, 0, len(all))
	for _, p := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[p])
	}
	return out
}
