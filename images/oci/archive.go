package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/failure"
)

const (
	// members of an archive; one with 127 layers in the old format has about 400
	maxEntries = 100_000
	maxLinks   = 8 // links that lead to links
)

// members of a tar file by name.
type members map[string]member

type member struct {
	offset, size int64
	link         string // the name that the link leads to
}

// openArchive indexes the members of a tar file, which are read in place. Each of them opens the
// file again, so there is nothing to close; an error of kind Content if the file is no longer what
// was indexed.
func openArchive(name string) (files, error) {
	f, err := bounded.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	indexed, err := f.Stat()
	if err != nil {
		return nil, err
	}
	all, err := readMembers(f)
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	return func(wanted string) (io.ReadCloser, error) {
		m, err := all.find(wanted)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", wanted, name, err)
		}
		f, err := os.Open(name)
		if err != nil {
			return nil, failure.Errorf(
				failure.Content, "%w: the archive must stay until the command ends", err,
			)
		}
		now, err := f.Stat()
		if err != nil || now.Size() != indexed.Size() || !now.ModTime().Equal(indexed.ModTime()) {
			f.Close()
			return nil, failure.Errorf(
				failure.Content, "%s was changed while it was in use: run the command again", name,
			)
		}
		return section{io.NewSectionReader(f, m.offset, m.size), f}, nil
	}, nil
}

// section is a part of a file; Close closes the file.
type section struct {
	*io.SectionReader
	io.Closer
}

func readMembers(f io.ReadSeeker) (members, error) {
	head := make([]byte, compression.HeadSize)
	if n, err := io.ReadFull(f, head); err != nil {
		return nil, fmt.Errorf("is not a tar archive (%d bytes): %w", n, err)
	}
	if compression.Of(head) != "" {
		return nil, errors.New("is compressed: unpack it first, for example with gunzip")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	all := members{}
	r := tar.NewReader(f)
	for range maxEntries {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("is not a sound tar archive: %w", err)
		}
		at, err := f.Seek(0, io.SeekCurrent) // archive/tar reads no byte beyond the header
		if err != nil {
			return nil, err
		}
		key := path.Clean("/" + h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			all[key] = member{offset: at, size: h.Size}
		// docker save of old versions links shared layers: ID/layer.tar -> ../OTHER/layer.tar.
		case tar.TypeSymlink:
			all[key] = member{link: path.Join(path.Dir(key), h.Linkname)} //nolint:gosec // a key of our map, never a path
		case tar.TypeLink:
			all[key] = member{link: path.Clean("/" + h.Linkname)}
		}
	}
	return nil, fmt.Errorf("has more than %d members", maxEntries)
}

func (all members) find(name string) (member, error) {
	key := path.Clean("/" + name)
	for range maxLinks {
		m, ok := all[key]
		if !ok {
			return m, fs.ErrNotExist
		}
		if m.link == "" {
			return m, nil
		}
		key = m.link
	}
	return member{}, errors.New("links that never end")
}
