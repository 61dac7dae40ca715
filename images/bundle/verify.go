package bundle

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// Check reads and verifies all of a file. The findings are one or several about the signature and about damaged
// blobs, and the first one of another rule, which ends it. Without keys the signature does not matter. The bundle is nil
// when not even its first blob is reached. Errors are about reading the file.
func Check(ctx context.Context, file *io.SectionReader, keys []crypto.PublicKey, progress func(done, total int64)) (*Bundle, []Finding, error) {
	var all []Finding
	found := func(err error) error {
		f, ok := errors.AsType[Finding](err)
		if !ok {
			return err
		}
		all = append(all, f)
		return nil
	}
	b, err := Open(file)
	if err == nil {
		err = found(b.VerifySignature(keys))
	}
	if err == nil {
		err = b.pass(ctx, func(ctx context.Context, blob oci.Blob) error {
			begin := b.tar.at
			err := copyBlob(ctx, io.Discard, blob, func(done int64) {
				if progress != nil {
					progress(begin+done, file.Size())
				}
			})
			if wrong, ok := errors.AsType[*fetch.MismatchError](err); ok {
				return found(finding(RuleDamaged, blobFolder+blob.Desc.Digest.Hex, "its content has the digest sha256:%s", wrong.Got))
			}
			return err
		})
	}
	err = found(err)
	return b, all, err
}

// pass calls use with each blob in the order of the archive, which can be opened once. What use does not open is read
// behind it, and verified. Without an error all of the archive was sound.
func (b *Bundle) pass(ctx context.Context, use func(context.Context, oci.Blob) error) error {
	for _, want := range b.List.present() {
		member := blobFolder + want.Digest.Hex
		name, size, err := b.tar.next()
		switch {
		case errors.Is(err, io.EOF):
			return finding(RuleMissing, member, "it is on the list with %d bytes, and not in the file", want.Size)
		case err != nil:
			return err
		case name != member:
			return finding(RuleArchive, member, "%q is in its place", name)
		case size != want.Size:
			return finding(RuleSize, member, "it has %d bytes, and %d on the list", size, want.Size)
		}
		content, opened := verified(want, func() io.Reader { return &b.tar }), false
		err = use(ctx, oci.Blob{Desc: content.Desc, Open: func() (io.ReadCloser, error) {
			if opened {
				return nil, fmt.Errorf("%s has passed the pipe already: repeat the import, or import from a file", want.Digest)
			}
			opened = true
			return content.Open()
		}})
		if err == nil && !opened {
			err = copyBlob(ctx, io.Discard, content, nil)
		}
		if err != nil {
			return err
		}
	}
	name, _, err := b.tar.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return finding(RuleExtra, name, "it is in the file, and not on its list")
	}
	return err
}

// copyBlob writes a blob to w, and compares it with its digest.
func copyBlob(ctx context.Context, w io.Writer, b oci.Blob, progress func(int64)) error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	v := oci.Verify(r, b.Desc, "the source of the bundle")
	return errors.Join(fetch.Copy(ctx, w, v, progress), v.Close())
}
