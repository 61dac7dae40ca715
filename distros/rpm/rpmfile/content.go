package rpmfile

import (
	"archive/tar"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
)

// member passes one member to add.
func (p *payload) member(m member) error {
	i, err := p.find(m)
	if err != nil {
		return err
	}
	if i >= len(p.f.files) || p.seen[i] {
		return malformed("file %d (%.200q) is no file of the header, or twice in the archive", i, m.name)
	}
	p.seen[i] = true
	x := p.f.files[i]
	if x.ghost() {
		return malformed("the archive has %.200q, of which the header says that it is not there", x.path)
	}
	if m.size < 0 {
		m.size = p.strippedSize(i)
	}
	p.in.left = m.size
	err = p.pass(i, m.size)
	if err != nil {
		return fmt.Errorf("%.200s: %w", x.path, err)
	}
	return nil
}

// find returns the index of a member in the header's list.
func (p *payload) find(m member) (int, error) {
	if m.index >= 0 {
		return m.index, nil
	}
	// "./usr/bin/x", or "/usr/bin/x" of rpm 3
	name, err := cleanName(m.name)
	if err != nil {
		return 0, err
	}
	i, known := p.byName[name]
	if !known {
		return 0, malformed("the archive has %.200q, the header has not", m.name)
	}
	return i, nil
}

// pass passes a file of the header to add.
func (p *payload) pass(i int, size int64) error {
	x := p.f.files[i]
	h := p.tarHeader(i)
	switch x.kind() {
	case modeRegular:
		return p.regular(i, h, size)
	case modeLink:
		return p.symlink(x, h, size)
	case modeFolder:
		if size > 0 {
			return malformed("a folder of %d bytes", size)
		}
		h.Typeflag = tar.TypeDir
		if h.Name == "" {
			return nil
		}
		return p.add(h, strings.NewReader(""))
	}
	return fmt.Errorf("%w: mode %o, want file, folder or link", ErrUnsafePath, x.mode)
}

// strippedSize returns the size of a member in the stripped format: of a file with several names,
// the last one has the content.
func (p *payload) strippedSize(i int) int64 {
	x := p.f.files[i]
	switch g := p.groups[x.id]; {
	case x.kind() == modeLink:
		return int64(len(x.target))
	case x.kind() != modeRegular, g != nil && i < g.last:
		return 0
	}
	return x.size
}

// tarHeader returns the fields that all kinds of files have.
func (p *payload) tarHeader(i int) *tar.Header {
	x := p.f.files[i]
	h := &tar.Header{Name: p.names[i], Mode: int64(x.mode &^ modeKind), ModTime: time.Unix(x.mtime, 0), Uname: x.user, Gname: x.group}
	if x.user != "root" {
		h.Mode &^= modeSetUser
	}
	if x.group != "root" {
		h.Mode &^= modeSetGrp
	}
	return h
}

// regular passes a file to add, or remembers it if its content follows later under another name.
func (p *payload) regular(i int, h *tar.Header, size int64) error {
	x := p.f.files[i]
	g := p.groups[x.id]
	if size == 0 && g.members > 1 {
		switch {
		case g.primary >= 0:
			return p.link(i, g)
		case x.size > 0 || len(g.waiting) < g.members-1:
			g.waiting = append(g.waiting, i)
			return nil
		} // otherwise it is the last name of an empty file
	}
	if size != x.size || g.primary >= 0 {
		return fmt.Errorf("%w: %d bytes, the header says %d, once", ErrDigest, size, x.size)
	}
	err := p.content(x, h)
	if err != nil {
		return err
	}
	g.primary = i
	for _, earlier := range g.waiting {
		err = p.link(earlier, g)
		if err != nil {
			return err
		}
	}
	g.waiting = nil
	return nil
}

// link passes a further name of a file to add, as a hard link.
func (p *payload) link(i int, g *linkGroup) error {
	x := p.f.files[i]
	first := p.f.files[g.primary]
	if x.size != first.size || x.digest != first.digest {
		return fmt.Errorf("%w: %.200q is the same file, but they differ", ErrDigest, first.path)
	}
	h := p.tarHeader(i)
	h.Typeflag = tar.TypeLink
	h.Linkname = p.names[g.primary]
	return p.add(h, strings.NewReader(""))
}

// content passes a file with its content to add, and compares the digest of the whole content.
func (p *payload) content(x file, h *tar.Header) error {
	h.Typeflag = tar.TypeReg
	h.Size = x.size
	if x.caps != "" {
		value, err := capabilityXattr(x.caps)
		if err != nil {
			return err
		}
		if value != nil {
			h.PAXRecords = map[string]string{capabilityRecord: string(value)}
		}
	}
	if h.Name == "" {
		return fmt.Errorf("%w: a file without a name", ErrUnsafePath)
	}
	kind, counts := p.f.Header.fileHash()
	var body io.Reader = p.in
	var sum hash.Hash
	if counts && x.digest != "" {
		sum = kind.New()
		body = io.TeeReader(body, sum)
	}
	err := p.add(h, body)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	if err != nil || sum == nil {
		return err
	}
	return checkDigest(sum, x.digest)
}

// symlink passes a symbolic link to add. Its target must be the same in the header and in the
// archive.
func (p *payload) symlink(x file, h *tar.Header, size int64) error {
	if x.target == "" || h.Name == "" {
		return fmt.Errorf("%w: a symbolic link without name or target", ErrUnsafePath)
	}
	if size != int64(len(x.target)) {
		return fmt.Errorf("%w: a target of %d bytes, not %.200q", ErrDigest, size, x.target)
	}
	got, err := io.ReadAll(p.in)
	if err != nil {
		return err
	}
	if string(got) != x.target {
		return fmt.Errorf("%w: links to %.200q, the header says to %.200q", ErrDigest, got, x.target)
	}
	h.Typeflag = tar.TypeSymlink
	h.Linkname = x.target
	h.Mode = 0o777
	return p.add(h, strings.NewReader(""))
}
