package rootfs

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	paxElided = "DRIVERBUILD.elided"
	paxXattr  = "SCHILY.xattr."
)

// WriteTar writes the entries of this tree, without those of the lower one, as an image layer: sorted, with
// mtime for entries without a time of their own, with numeric owners, and with directories of mode 0755 for
// parents that neither tree has. The same tree gives the same bytes.
func (t *Tree) WriteTar(ctx context.Context, w io.Writer, mtime time.Time) error {
	tw, buf := tar.NewWriter(w), make([]byte, 256<<10)
	err := t.members(ctx, mtime, func(hdr *tar.Header, content *section) error {
		if err := tw.WriteHeader(hdr); err != nil || hdr.Size == 0 {
			return err
		}
		_, err := io.CopyBuffer(struct{ io.Writer }{tw}, struct{ io.Reader }{content.open()}, buf)
		return err
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

// members calls f for each member of the layer that WriteTar writes.
func (t *Tree) members(ctx context.Context, mtime time.Time, f func(*tar.Header, *section) error) error {
	first := map[*section]string{}
	for _, e := range t.withParents() {
		if err := ctx.Err(); err != nil {
			return err
		}
		hdr := header(e, mtime)
		if e.Kind == File && e.content != nil && e.Size > 0 {
			if name, ok := first[e.content]; ok {
				hdr.Typeflag, hdr.Linkname, hdr.Size = tar.TypeLink, name, 0
			} else {
				first[e.content] = e.Path
			}
		}
		if err := f(hdr, e.content); err != nil {
			return fmt.Errorf("write %s: %w", e.Path, err)
		}
	}
	return nil
}

func header(e *Entry, mtime time.Time) *tar.Header {
	hdr := &tar.Header{Name: e.Path, Mode: UnixMode(e.Mode), ModTime: mtime, Uid: e.UID, Gid: e.GID, Format: tar.FormatPAX, PAXRecords: records(e.Xattrs)}
	if !e.Time.IsZero() {
		hdr.ModTime = e.Time
	}
	switch e.Kind {
	case Dir:
		hdr.Typeflag, hdr.Name = tar.TypeDir, e.Path+"/"
	case Link:
		hdr.Typeflag, hdr.Linkname, hdr.Mode = tar.TypeSymlink, e.Target, 0o777
	case Deleted:
		hdr.Typeflag, hdr.Mode, hdr.Name = tar.TypeReg, 0o644, path.Join(path.Dir(e.Path), whiteout+path.Base(e.Path))
	case Special:
		word, numbers, _ := strings.Cut(e.Target, " device=native,")
		for flag, name := range specials {
			if name == word {
				hdr.Typeflag = flag
			}
		}
		_, _ = fmt.Sscanf(numbers, "%d,%d", &hdr.Devmajor, &hdr.Devminor) // a FIFO has none
	default:
		hdr.Typeflag, hdr.Size = tar.TypeReg, e.Size
		if e.ContentOmitted {
			hdr.Size, hdr.PAXRecords[paxElided] = 0, "1"
		}
	}
	return hdr
}

// specials are the kinds of member that are Special, with their words in mtree(5).
var specials = map[byte]string{tar.TypeChar: "char", tar.TypeBlock: "block", tar.TypeFifo: "fifo"}

// special says what a member is: "char device=native,1,3".
func special(hdr *tar.Header) string {
	if hdr.Typeflag == tar.TypeFifo {
		return specials[hdr.Typeflag]
	}
	return fmt.Sprintf("%s device=native,%d,%d", specials[hdr.Typeflag], hdr.Devmajor, hdr.Devminor)
}

// records are extended attributes as a header has them.
func records(xattrs map[string]string) map[string]string {
	all := make(map[string]string, len(xattrs))
	for name, value := range xattrs {
		all[paxXattr+name] = value
	}
	return all
}

// xattrs are the extended attributes of a member.
func xattrs(hdr *tar.Header) (all map[string]string) {
	for name, value := range hdr.PAXRecords {
		if name, ok := strings.CutPrefix(name, paxXattr); ok {
			if all == nil {
				all = map[string]string{}
			}
			all[strings.Clone(name)] = strings.Clone(value)
		}
	}
	return all
}

// withParents returns the entries in tar order, with the directories for which no tree has an entry.
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

// Apply reads one image layer into the tree, with its whiteouts, which hide what the layers before it have, and never what
// the same layer adds. keep selects the file contents to keep; nil keeps all.
//
// Links in the folders of a name are followed inside the tree, so that lib/x of a layer becomes usr/lib/x
// over a base with merged /usr, and can lead nowhere else. The last part of a name is replaced, also when it
// is a link: a folder lib of a layer takes the place of the link. containerd does the same.
//
// Content that no layer has is ErrFormat, ErrTooLarge or ErrUnsafePath.
func (t *Tree) Apply(ctx context.Context, layer io.Reader, keep func(path string) bool) error {
	t.layer++
	return eachMember(ctx, layer, func(hdr *tar.Header, r io.Reader) error { return t.applyMember(hdr, r, keep) })
}

func (t *Tree) applyMember(hdr *tar.Header, r io.Reader, keep func(path string) bool) error {
	return t.apply(hdr, xattrs(hdr), func(e *Entry) (err error) {
		e.Size, e.ContentOmitted = hdr.Size, true
		if keep == nil || keep(e.Path) {
			e.content, err = t.spool.write(r, hdr.Size)
			e.ContentOmitted = hdr.PAXRecords[paxElided] != ""
		}
		return err
	})
}

// eachMember calls f for each member of a layer.
func eachMember(ctx context.Context, layer io.Reader, f func(*tar.Header, io.Reader) error) error {
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
		if err = CheckMember(hdr); err == nil {
			err = f(detached(hdr), Cancellable(ctx, tr))
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

// detached copies the texts that a tree keeps: a name out of a PAX record shares the memory of the whole
// record, which may have a megabyte.
func detached(hdr *tar.Header) *tar.Header {
	if len(hdr.PAXRecords) > 0 {
		hdr.Name, hdr.Linkname = strings.Clone(hdr.Name), strings.Clone(hdr.Linkname)
	}
	return hdr
}

// apply lays a member of a layer over the tree; fill says what is in a file.
func (t *Tree) apply(hdr *tar.Header, xattrs map[string]string, fill func(*Entry) error) error {
	if hdr.Typeflag == tar.TypeDir && strings.Trim(hdr.Name, "./") == "" || hdr.Typeflag == tar.TypeXGlobalHeader {
		return nil // the root itself, or no member
	}
	name, err := t.resolveParent(strings.TrimLeft(hdr.Name, "/"))
	if err != nil {
		return err
	}
	dir, base := path.Dir(name), path.Base(name)
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
	e := &Entry{Path: name, Mode: FileMode(hdr.Mode), UID: hdr.Uid, GID: hdr.Gid, Xattrs: xattrs}
	switch hdr.Typeflag {
	case tar.TypeDir:
		e.Kind = Dir
		if old, ok := t.entries[name]; ok && old.Kind != Dir {
			t.removeEntry(name)
		}
		return t.addEntry(e)
	case tar.TypeSymlink:
		e.Kind, e.Target = Link, hdr.Linkname
	case tar.TypeLink:
		target, err := t.resolveParent(strings.TrimLeft(hdr.Linkname, "/"))
		if err != nil {
			return err
		}
		from, ok := t.entries[target]
		if !ok || from.Kind == Dir {
			return fmt.Errorf("%w: hard link to %.100s, which is not there as a file", ErrFormat, target)
		}
		linked := *from
		linked.Path = name
		e = &linked
	case tar.TypeReg:
		if err := fill(e); err != nil {
			return err
		}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		e.Kind, e.Target = Special, special(hdr)
	default:
		return fmt.Errorf("%w: a member of type %q: no container runtime unpacks it", ErrFormat, hdr.Typeflag)
	}
	t.removeEntry(name)
	return t.addEntry(e)
}

// hide removes what earlier layers have at a path. A folder in which this layer has something stays as one without entry.
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

// Add adds a member of an archive: a file, directory, link or hard link, with its mode and numeric owner. It
// resolves names through the links of this tree and the lower one, and drops the archive's times. It refuses
// anything else, such as a device.
func (t *Tree) Add(hdr *tar.Header, r io.Reader) error {
	mode := FileMode(hdr.Mode)
	switch hdr = detached(hdr); hdr.Typeflag {
	case tar.TypeDir:
		return t.AddDir(hdr.Name, mode)
	case tar.TypeSymlink:
		return t.AddLink(hdr.Name, hdr.Linkname)
	case tar.TypeLink:
		return t.AddHardLink(hdr.Name, hdr.Linkname)
	case tar.TypeReg:
		if err := CheckMember(hdr); err != nil {
			return fmt.Errorf("%s: %w", hdr.Name, err)
		}
		if err := t.AddFile(hdr.Name, mode, hdr.Size, r); err != nil {
			return err
		}
		p, err := t.resolveParent(hdr.Name)
		if err != nil {
			return err
		}
		e := t.entries[p]
		e.UID, e.GID, e.Xattrs = hdr.Uid, hdr.Gid, xattrs(hdr)
		return checkEntry(e)
	default:
		return fmt.Errorf("%s: %w: type %q has no place in an image", hdr.Name, ErrUnsafePath, hdr.Typeflag)
	}
}

// specialBits are the bits of a mode that Go and Unix place differently.
var specialBits = []struct {
	mode fs.FileMode
	bit  int64
}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}}

// UnixMode returns a mode as a tar header has it.
func UnixMode(m fs.FileMode) int64 {
	bits := int64(m.Perm())
	for _, s := range specialBits {
		if m&s.mode != 0 {
			bits |= s.bit
		}
	}
	return bits
}

// FileMode returns the mode of a tar header.
func FileMode(bits int64) fs.FileMode {
	m := fs.FileMode(bits & 0o777)
	for _, s := range specialBits {
		if bits&s.bit != 0 {
			m |= s.mode
		}
	}
	return m
}
