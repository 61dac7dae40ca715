package rootfs

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Apply reads one image layer into the tree, with its markers. keep selects the file contents to
// keep; nil keeps all.
//
// Links in the folders of a name are followed inside the tree, so that lib/x of a layer becomes
// usr/lib/x over a base with merged /usr, and can lead nowhere else. The last part of a name is
// replaced, also when it is a link: a folder lib of a layer takes the place of the link. containerd
// does the same.
//
// Content that no layer has is ErrFormat, ErrTooLarge or ErrUnsafePath.
func (t *Tree) Apply(ctx context.Context, layer io.Reader, keep func(path string) bool) error {
	t.layer++
	tr := tar.NewReader(layer)
	for range maxEntries + 1 {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read layer: %w", malformed(err))
		}
		err = CheckMember(hdr)
		if err == nil {
			err = t.apply(detached(hdr), Cancellable(ctx, tr), keep)
		}
		if err != nil {
			return fmt.Errorf("read layer: %.200s: %w", hdr.Name, malformed(err))
		}
	}
	return fmt.Errorf("read layer: %w: more than %d members", ErrTooLarge, maxEntries)
}

// malformed marks what archive/tar says about a damaged archive; other errors are the reader's own.
func malformed(err error) error {
	for _, e := range []error{tar.ErrHeader, tar.ErrFieldTooLong, tar.ErrInsecurePath, io.ErrUnexpectedEOF} {
		if errors.Is(err, e) && !errors.Is(err, ErrFormat) {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
	}
	return err
}

// detached copies the texts that a tree keeps: a name out of a PAX record shares the memory of the
// whole record, which may have a megabyte.
func detached(hdr *tar.Header) *tar.Header {
	if len(hdr.PAXRecords) > 0 {
		hdr.Name = strings.Clone(hdr.Name)
		hdr.Linkname = strings.Clone(hdr.Linkname)
	}
	return hdr
}

// apply lays a member of a layer over the tree.
func (t *Tree) apply(hdr *tar.Header, r io.Reader, keep func(path string) bool) error {
	if hdr.Typeflag == tar.TypeDir && strings.Trim(hdr.Name, "./") == "" || hdr.Typeflag == tar.TypeXGlobalHeader {
		return nil // the root itself, or no member
	}
	name, err := t.resolveParent(strings.TrimLeft(hdr.Name, "/"))
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	base := path.Base(name)
	switch hidden, err := ParseMarker(base); {
	case strings.HasPrefix(name, metadata) && hidden != Everything:
		return nil // of AUFS, in images of old versions of Docker: of no use without it
	case err != nil:
		return err
	case hidden == Everything:
		return t.hideBelow(dir)
	case hidden != "":
		t.hide(path.Join(dir, hidden))
		return nil
	}
	e := &Entry{Path: name, Mode: FileMode(hdr.Mode), UID: hdr.Uid, GID: hdr.Gid, Xattrs: xattrs(hdr)}
	switch hdr.Typeflag {
	case tar.TypeDir:
		e.Kind = Dir
		if old, ok := t.entries[name]; ok && old.Kind != Dir {
			t.removeEntry(name)
		}
		return t.addEntry(e)
	case tar.TypeSymlink:
		e.Kind = Link
		e.Target = hdr.Linkname
	case tar.TypeLink:
		e, err = t.hardLink(name, hdr.Linkname)
		if err != nil {
			return err
		}
	case tar.TypeReg:
		e.Size = hdr.Size
		e.ContentOmitted = true
		if keep == nil || keep(e.Path) {
			e.ContentOmitted = hdr.PAXRecords[paxElided] != ""
			e.content, err = t.spool.write(r, hdr.Size)
			if err != nil {
				return err
			}
		}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		e.Kind = Special
		e.Target = special(hdr)
	default:
		return fmt.Errorf("%w: a member of type %q: no container runtime unpacks it", ErrFormat, hdr.Typeflag)
	}
	t.removeEntry(name)
	return t.addEntry(e)
}

// hardLink returns the entry of another name of a file.
func (t *Tree) hardLink(name, link string) (*Entry, error) {
	target, err := t.resolveParent(strings.TrimLeft(link, "/"))
	if err != nil {
		return nil, err
	}
	from, ok := t.entries[target]
	if !ok || from.Kind == Dir {
		return nil, fmt.Errorf("%w: hard link to %.100s, which is not there as a file", ErrFormat, target)
	}
	linked := *from
	linked.Path = name
	return &linked, nil
}

// hide removes what earlier layers have at a path. A folder in which this layer has something stays
// as one without entry.
func (t *Tree) hide(p string) {
	for name := range t.names[p] {
		t.hide(path.Join(p, name))
	}
	switch e := t.entries[p]; {
	case e != nil && e.layer == t.layer:
	case len(t.names[p]) == 0:
		t.removeEntry(p)
	default:
		delete(t.entries, p)
	}
}

// hideBelow removes what earlier layers have in a folder.
func (t *Tree) hideBelow(top string) error {
	if e, ok := t.Lstat(top); !ok || e.Kind != Dir {
		t.removeEntry(top)
		return t.addEntry(&Entry{Path: top, Kind: Dir, Mode: 0o755})
	}
	for name := range t.names[top] {
		t.hide(path.Join(top, name))
	}
	if top != "." && t.entries[top] == nil && len(t.names[top]) == 0 { // it has to stay a folder
		return t.addEntry(&Entry{Path: top, Kind: Dir, Mode: 0o755})
	}
	return nil
}
