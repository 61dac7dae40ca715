package rpmfile

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"hash"
	"io"
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
		return fmt.Errorf(
			"%w: %d bytes in the archive, the header says %d, once",
			ErrDigest,
			size,
			x.size,
		)
	}
	if err := p.content(x, h); err != nil {
		return err
	}
	g.primary = i
	for _, earlier := range g.waiting {
		if err := p.link(earlier, g); err != nil {
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
		return fmt.Errorf(
			"%w: a name of the same file as %.200q, but the header says that they differ",
			ErrDigest,
			first.path,
		)
	}
	h := p.tarHeader(i)
	h.Typeflag = tar.TypeLink
	h.Linkname = p.names[g.primary]
	return p.add(h, bytes.NewReader(nil))
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
	var sum hash.Hash
	body := &body{p: p}
	if kind, counts := p.f.Header.fileHash(); counts && x.digest != "" {
		sum = kind.New()
		body.to = sum
	}
	if err := p.add(h, body); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if sum == nil {
		return nil
	}
	if got := fmt.Sprintf("%x", sum.Sum(nil)); got != x.digest {
		return fmt.Errorf("%w: its digest is %s, the header says %s", ErrDigest, got, x.digest)
	}
	return nil
}

// symlink passes a symbolic link to add. Its target must be the same in the header and in the
// archive.
func (p *payload) symlink(x file, h *tar.Header, size int64) error {
	if x.target == "" || h.Name == "" {
		return fmt.Errorf("%w: a symbolic link without name or target", ErrUnsafePath)
	}
	if size != int64(len(x.target)) {
		return fmt.Errorf(
			"%w: the target in the archive has %d bytes, in the header it is %.200q",
			ErrDigest,
			size,
			x.target,
		)
	}
	got, err := io.ReadAll(&body{p: p})
	if err != nil {
		return err
	}
	if string(got) != x.target {
		return fmt.Errorf(
			"%w: links to %.200q in the archive, to %.200q in the header",
			ErrDigest,
			got,
			x.target,
		)
	}
	h.Typeflag = tar.TypeSymlink
	h.Linkname = x.target
	h.Mode = 0o777
	return p.add(h, bytes.NewReader(nil))
}

// body reads the content of a member. It marks errors, because add returns them to Payload, and
// hashes all bytes.
type body struct {
	p  *payload
	to hash.Hash // nil: not hashed
}

func (b *body) Read(buf []byte) (int, error) {
	n, err := b.p.in.Read(buf)
	if b.to != nil {
		b.to.Write(buf[:n])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.p.broken(err)
	}
	return n, err
}
