package bundle

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// Check reads and verifies all of a file. Of the list and what comes before it, and of the tar
// itself, only the first fault is among the faults. Without keys the signature does not matter. The
// bundle is nil when not even its first blob is reached. Errors are about reading the file.
func Check(
	ctx context.Context,
	file *io.SectionReader,
	keys []crypto.PublicKey,
	progress func(done, total int64),
) (b *Bundle, all []Fault, err error) {
	// found takes a fault among those of the bundle, and leaves other errors.
	found := func(err error) error {
		wrong, ok := errors.AsType[Fault](err)
		if !ok {
			return err
		}
		all = append(all, wrong)
		return nil
	}
	b, err = Open(file)
	if err != nil {
		return nil, all, found(err)
	}
	_ = found(b.VerifySignature(keys)) // it has no other errors
	read := func(ctx context.Context, blob oci.Blob) error {
		begin := b.tar.at
		err := blob.Copy(ctx, io.Discard, func(done int64) {
			if progress != nil {
				progress(begin+done, file.Size())
			}
		})
		wrong, ok := errors.AsType[*fetch.MismatchError](err)
		if !ok {
			return err
		}
		name := blobFolder + blob.Desc.Digest.Hex
		return found(fault(RuleDamaged, name, "its content has the digest sha256:%s", wrong.Got))
	}
	err = b.pass(ctx, read, func(f Fault) error { return found(f) })
	return b, all, found(err)
}

// pass calls use with each blob in the order of the archive, which can be opened once. What use
// does not open is read behind it, and verified. Blobs that are not where they must be go to found,
// whose error ends it. If there are none, and no error, all of the archive was sound.
func (b *Bundle) pass(
	ctx context.Context,
	use func(context.Context, oci.Blob) error,
	found func(Fault) error,
) error {
	wanted := b.List.present()
	next := 0
	at := map[string]int{}
	for n, w := range wanted {
		at[blobFolder+w.Digest.Hex] = n
	}
	for {
		name, size, err := b.tar.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		n, listed := at[name]
		switch {
		case !listed:
			err = found(fault(RuleExtra, name, "it is in the file, and not on its list"))
		case wanted[n].Size != size:
			err = found(fault(
				RuleSize, name, "it has %d bytes, and %d on the list", size, wanted[n].Size,
			))
		case n < next:
			err = found(fault(RuleArchive, name, "it is not in its place"))
		default:
			next = n + 1
			err = b.passBlob(ctx, wanted[n].descriptor(), use)
		}
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, &b.tar)
		if err != nil {
			return err
		}
		delete(at, name)
	}
	for _, w := range wanted {
		name := blobFolder + w.Digest.Hex
		_, missing := at[name]
		if !missing {
			continue
		}
		err := found(fault(
			RuleMissing, name, "it is on the list with %d bytes, and not in the file", w.Size,
		))
		if err != nil {
			return err
		}
	}
	return nil
}

// passBlob lets use read the content of the member.
func (b *Bundle) passBlob(
	ctx context.Context,
	d v1.Descriptor,
	use func(context.Context, oci.Blob) error,
) error {
	opened := false
	err := use(ctx, oci.Blob{Desc: d, Open: func() (io.ReadCloser, error) {
		if opened {
			return nil, fmt.Errorf(
				"%s has passed the pipe already: repeat the import, or import from a file", d.Digest,
			)
		}
		opened = true
		return verified(d, &b.tar), nil
	}})
	if err != nil || opened {
		return err
	}
	return fetch.Copy(ctx, io.Discard, verified(d, &b.tar), nil)
}
