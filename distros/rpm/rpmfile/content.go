package rpmfile

import (
	"archive/tar"
	"fmt"
	"hash"
	"io"
	"strings"
)

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
