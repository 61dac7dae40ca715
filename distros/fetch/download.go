package fetch

import (
	"context"
	"errors"
	"io"
	"net/url"
	"syscall"

	"github.com/driver-container/driver-container/distros/bounded"
)

// localError marks an error of this machine (disk), which another attempt cannot cure.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

// download downloads a file into the store. cached is true when another process finished it in the meantime.
func (c *Client) download(ctx context.Context, u *url.URL, f File, progress Progress) (cached bool, err error) {
	part, err := c.lockPartial(ctx, f)
	if err != nil || part == nil {
		return err == nil, err
	}
	if f.Size > 0 && part.size > f.Size || part.size > 0 && part.origin.URL != redactURL(u) {
		if err := part.restart(origin{}); err != nil {
			return false, errors.Join(err, part.file.Close())
		}
	}
	resumed := part.size > 0
	for {
		announced, err := c.transfer(ctx, u, f, part, progress)
		if err != nil {
			if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
				return false, errors.Join(err, part.discard()) // others need the space more than we need the bytes
			}
			// The bytes stay for the next attempt, of this process or another one.
			return false, errors.Join(err, part.file.Close())
		}
		if part.sums.match(f) && (f.Size == 0 || part.size == f.Size) {
			return false, part.finish(c.Store)
		}
		if !resumed {
			return false, c.mismatch(u, f, part, announced)
		}
		// Two halves that do not fit (the file changed, or the machine lost power while it wrote the first half)
		// look like a wrong file. Only a download from the first byte is proof.
		resumed = false
		if err := part.restart(origin{}); err != nil {
			return false, errors.Join(err, part.file.Close())
		}
	}
}

func (c *Client) mismatch(u *url.URL, f File, part *partial, announced int64) error {
	want, got := part.sums.compare(f)
	e := &MismatchError{
		URL: redactURL(u), Want: want, Got: got,
		WantSize: f.Size, GotSize: max(part.size, announced),
	}
	e.Kept = part.reject(c.Store, u.Path)
	return e
}

// copyLocal copies a file of this machine into the store.
func (c *Client) copyLocal(ctx context.Context, u *url.URL, f File, progress Progress) error {
	src, err := bounded.Open(u.Path)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // opened for reading
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	if f.Size > 0 && fi.Size() != f.Size {
		return &MismatchError{URL: redactURL(u), Want: f.key(), Got: "not read", WantSize: f.Size, GotSize: fi.Size()}
	}
	w, err := c.Store.Create()
	if err != nil {
		return err
	}
	defer w.Close() //nolint:errcheck // discards; after Commit a no-op
	w.sums = newSums(f)
	if err := Copy(ctx, w, src, func(n int64) { progress(n, fi.Size()) }); err != nil {
		return err
	}
	if want, got := w.sums.compare(f); want != got {
		// Not kept: the file is on this machine, where people can inspect it.
		return &MismatchError{URL: redactURL(u), Want: want, Got: got, WantSize: f.Size, GotSize: w.size}
	}
	_, _, err = w.Commit()
	return err
}

// Copy copies until the end or until ctx ends, and calls progress, if there is one, with the number of bytes
// after each piece.
func Copy(ctx context.Context, w io.Writer, r io.Reader, progress func(int64)) error {
	buf := make([]byte, 256<<10)
	var done int64
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if done += int64(n); progress != nil {
				progress(done)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
