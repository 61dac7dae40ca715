package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// pass calls use with each blob of a pipe, which can be opened once. What use does not read is read behind it, and
// verified. Without an error all of the pipe was sound.
func (b *Bundle) pass(ctx context.Context, use func(context.Context, oci.Blob) error) error {
	for _, want := range b.List.present() {
		name, size, err := b.tar.next()
		switch {
		case errors.Is(err, io.EOF):
			return finding(RuleMissing, blobFolder+want.Digest.Hex, "it is not in the file")
		case err != nil:
			return err
		case name != blobFolder+want.Digest.Hex || size != want.Size:
			return finding(RuleArchive, blobFolder+want.Digest.Hex, "%q of %d bytes is in its place", name, size)
		}
		desc := v1.Descriptor{Digest: want.Digest, Size: want.Size}
		content, opened := oci.Verify(io.NopCloser(&b.tar), desc, "the bundle"), false
		err = use(ctx, oci.Blob{Desc: desc, Open: func() (io.ReadCloser, error) {
			if opened {
				return nil, fmt.Errorf("%s has passed the pipe already: repeat the import, or import from a file", want.Digest)
			}
			opened = true
			return content, nil
		}})
		if err == nil && !opened {
			err = fetch.Copy(ctx, io.Discard, content, nil)
		}
		if err != nil {
			return err
		}
	}
	if _, _, err := b.tar.next(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = finding(RuleExtra, "", "it goes on behind its last blob")
		}
		return err
	}
	return nil
}
