// Package tarindex finds the members of a tar file and reads them in place. It unpacks nothing.
package tarindex

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	maxEntries = 100_000 // members of an archive; one with 127 layers in the old format has about 400
	maxLinks   = 8       // links that lead to links
)

// Archive is a tar file whose members are read in place.
type Archive struct {
	Path    string
	members map[string]member
}

type member struct {
	offset, size int64
	link         string // the name that the link leads to
}

// Open indexes the members of a tar file. Each read of a member opens the file again, so there is
// nothing to close.
func Open(name string) (_ *Archive, err error) {
	f, err := bounded.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return index(name, f)
}

func index(name string, f io.ReadSeeker) (*Archive, error) {
	magic := make([]byte, 4)
	if n, err := io.ReadFull(f, magic); err != nil {
		return nil, fmt.Errorf("%s is not a tar archive (%d bytes): %w", name, n, err)
	}
	if bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) || bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return nil, fmt.Errorf("%s is compressed: unpack it first, for example with gunzip", name)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	a := &Archive{Path: name, members: map[string]member{}}
	r := tar.NewReader(f)
	for range maxEntries {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not a sound tar archive: %w", name, err)
		}
		at, err := f.Seek(0, io.SeekCurrent) // archive/tar reads no byte beyond the header
		if err != nil {
			return nil, err
		}
		key := path.Clean("/" + h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			a.members[key] = member{offset: at, size: h.Size}
		// docker save of old versions links shared layers: ID/layer.tar -> ../OTHER/layer.tar.
		case tar.TypeSymlink:
			a.members[key] = member{link: path.Join(path.Dir(key), h.Linkname)} //nolint:gosec // a key of our map, never a path
		case tar.TypeLink:
			a.members[key] = member{link: path.Clean("/" + h.Linkname)}
		}
	}
	return nil, fmt.Errorf("%s has more than %d members", name, maxEntries)
}

// Has says why the archive has no such member.
func (a *Archive) Has(name string) error {
	_, err := a.find(name)
	return err
}

func (a *Archive) find(name string) (member, error) {
	key := path.Clean("/" + name)
	for range maxLinks {
		m, ok := a.members[key]
		if !ok {
			return m, fmt.Errorf("%s in %s: %w", name, a.Path, fs.ErrNotExist)
		}
		if m.link == "" {
			return m, nil
		}
		key = m.link
	}
	return member{}, fmt.Errorf("%s in %s: links that never end", name, a.Path)
}

// section is a part of a file; Close closes the file.
type section struct {
	io.Reader
	io.Closer
}

// Member opens a member, and returns its size. A link is followed inside the archive.
func (a *Archive) Member(name string) (io.ReadCloser, int64, error) {
	m, err := a.find(name)
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(a.Path)
	if err != nil {
		return nil, 0, err
	}
	return section{io.NewSectionReader(f, m.offset, m.size), f}, m.size, nil
}

// Read reads a member of at most limit bytes.
func (a *Archive) Read(name string, limit int64) (_ []byte, err error) {
	r, size, err := a.Member(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if size > limit {
		return nil, fmt.Errorf("%s in %s is larger than %d bytes", name, a.Path, limit)
	}
	return io.ReadAll(r)
}
