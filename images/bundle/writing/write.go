package writing

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/oci"
)

// Write writes the bundle. progress, if there is one, is called often, with the bytes that are written and all
// of them.
func (p *Plan) Write(ctx context.Context, w io.Writer, progress func(done, total int64)) error {
	done := int64(0)
	report := func(n int64) {
		if progress != nil {
			progress(done+n, p.Size)
		}
	}
	for _, m := range p.members {
		if err := m.write(ctx, w, report); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
		done += tarfile.Space(m.blob.Desc.Size)
	}
	if _, err := w.Write(make([]byte, tarfile.TrailerSize)); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	report(tarfile.TrailerSize)
	return nil
}

// write writes the member to w. Its content is compared with its digest on the way.
func (m member) write(ctx context.Context, w io.Writer, progress func(int64)) (err error) {
	h := tarfile.Header(m.name, m.blob.Desc.Size)
	if _, err := w.Write(h[:]); err != nil {
		return err
	}
	r, err := m.blob.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	v := oci.Verify(r, m.blob.Desc, m.name)
	defer func() { err = errors.Join(err, v.Close()) }()
	if err := fetch.Copy(ctx, w, v, progress); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	_, err = w.Write(make([]byte, tarfile.Padding(m.blob.Desc.Size)))
	return err
}
