package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// errElided is the error of reading a file whose content was not kept.
var errElided = errors.New("the content of this file was not kept")

// ReadFile returns the content of a file, found through links, of at most 64 MiB: larger is
// ErrTooLarge.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	e, err := t.Stat(name)
	if err != nil {
		return nil, err
	}
	r, err := e.Open()
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	if e.Size > maxRead {
		return nil, fmt.Errorf(
			"read %s: %w: %d bytes, at most %d",
			name,
			ErrTooLarge,
			e.Size,
			maxRead,
		)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// Open returns the content of a File entry.
func (e *Entry) Open() (*io.SectionReader, error) {
	switch {
	case e.Kind != File:
		return nil, errors.New("not a regular file")
	case e.ContentOmitted:
		return nil, errElided
	}
	return e.content.open(), nil
}

// String says what an entry is: "file of 12 bytes, mode 0755, owner 0:0".
func (e *Entry) String() string {
	what := ""
	switch e.Kind {
	case File:
		what = fmt.Sprintf("file of %d bytes", e.Size)
	case Dir:
		what = "folder"
	case Link:
		return fmt.Sprintf("link to %s", e.Target)
	case Deleted:
		return "deletion"
	case Special:
		what = e.Target
	}
	what += fmt.Sprintf(", mode %04o, owner %d:%d", UnixMode(e.Mode), e.UID, e.GID)
	if len(e.Xattrs) > 0 {
		what += fmt.Sprintf(", extended attributes %q", e.Xattrs)
	}
	return what
}

// SHA256 returns the digest of a File's content in hex digits.
func (e *Entry) SHA256() (string, error) {
	r, err := e.Open()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, r)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// ReadDir returns the entries of a directory, in this tree and the lower one, sorted by name.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.Stat(name)
	if err != nil {
		return nil, err
	}
	if e.Kind != Dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	seen := map[string]bool{}
	for at := t; at != nil; at = at.lower {
		for base := range at.names[e.Path] {
			seen[base] = true
		}
	}
	var list []fs.DirEntry
	for base := range seen {
		if child, ok := t.Lstat(path.Join(e.Path, base)); ok {
			list = append(list, fs.FileInfoToDirEntry(info{child}))
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// OpenFS returns the tree as an fs.FS, for code that reads a root of any kind.
func (t *Tree) OpenFS() fs.FS { return view{t} }

type view struct{ t *Tree }

func (v view) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	e, err := v.t.Stat(name)
	if err != nil {
		return nil, err
	}
	if e.Kind == Dir {
		list, err := v.t.ReadDir(name)
		return &dirFile{info: info{e}, list: list}, err
	}
	r, err := e.Open()
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &regular{info: info{e}, SectionReader: r}, nil
}

// info adapts an Entry to the fs package.
type info struct{ e *Entry }

func (i info) Name() string       { return path.Base(i.e.Path) }
func (i info) Size() int64        { return i.e.Size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.e.Kind == Dir }
func (i info) Sys() any           { return i.e }
func (i info) Mode() fs.FileMode {
	switch i.e.Kind {
	case Dir:
		return i.e.Mode | fs.ModeDir
	case Link:
		return i.e.Mode | fs.ModeSymlink
	case Special:
		return i.e.Mode | fs.ModeIrregular
	default:
		return i.e.Mode
	}
}

type regular struct {
	info
	*io.SectionReader
}

func (r *regular) Size() int64                { return r.info.Size() }
func (r *regular) Stat() (fs.FileInfo, error) { return r.info, nil }
func (r *regular) Close() error               { return nil }

type dirFile struct {
	info
	list []fs.DirEntry
}

func (d *dirFile) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dirFile) Close() error               { return nil }
func (d *dirFile) Read([]byte) (int, error)   { return 0, errors.New("is a directory") }
func (d *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.list) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.list) {
		n = len(d.list)
	}
	head := d.list[:n]
	d.list = d.list[n:]
	return head, nil
}
