package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Adopt puts content from elsewhere into the store, under the digests of f, if it has them. The error is a
// *MismatchError if it does not, and nothing is stored then. f.URL is for messages.
func (s *Store) Adopt(ctx context.Context, f File, r io.Reader) (err error) {
	if err := f.check(); err != nil {
		return fmt.Errorf("store %s: %w", f.URL, err)
	}
	if s.Has(f.key()) && (f.SHA512 == "" || s.Has(f.SHA512)) {
		return nil
	}
	w, err := s.Create()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	w.sums = newSums(f)
	if err := Copy(ctx, w, r, nil); err != nil {
		return fmt.Errorf("store %s: %w", f.URL, err)
	}
	if want, got := w.sums.compare(f); want != got || f.Size > 0 && f.Size != w.size {
		return &MismatchError{URL: f.URL, Want: want, Got: got, WantSize: f.Size, GotSize: w.size}
	}
	_, _, err = w.Commit()
	return err
}
