package bundle

import (
	"context"

	"github.com/driver-container/driver-container/images/oci"
)

// Drain reads all of a pipe.
func (b *Bundle) Drain(ctx context.Context) error {
	return b.pass(ctx, func(context.Context, oci.Blob) error { return nil }, func(f Fault) error { return f })
}
