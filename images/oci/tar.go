package oci

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
)

// Member is a file of an archive.
type Member struct {
	Name string
	Blob Blob
}

// WriteTar writes an archive, in the order of its members: the same members give the same bytes.
// Each content is compared with its descriptor on the way. progress, if there is one, is called
// often, with the bytes that are written.
func WriteTar(ctx context.Context, w io.Writer, members []Member, progress func(done int64)) error {
	if progress == nil {
		progress = func(int64) {}
	}
	out := tar.NewWriter(w)
	done := int64(0)
	for _, m := range members {
		err := out.WriteHeader(TarHeader(m.Name, m.Blob.Desc.Size))
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		err = m.Blob.Copy(ctx, out, func(now int64) { progress(done + now) })
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		done += MemberSize(m.Blob.Desc.Size)
	}
	return out.Close()
}

// TarHeader is the one header that a member has: a regular file of mode 0644 that belongs to root,
// of 1970.
func TarHeader(name string, size int64) *tar.Header {
	h := tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name,
		Size:     size,
		Mode:     0o644,
		Format:   tar.FormatUSTAR,
	}
	if size >= 1<<33 { // more than octal digits hold
		h.Format = tar.FormatGNU
	}
	return &h
}

// TarBlock is the size of the blocks that a tar consists of: a header is one, and content is filled
// up with zeros.
const TarBlock = 512

// MemberSize is how many bytes a member with content of this size takes.
func MemberSize(size int64) int64 { return TarBlock + size + -size&(TarBlock-1) }
