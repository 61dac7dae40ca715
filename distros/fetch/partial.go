package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// waitStep is the interval at which a process checks whether another one, which downloads the same
// file, has finished.
const waitStep = 100 * time.Millisecond

// localError marks an error of this machine (disk), which another attempt cannot cure.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

// origin is what must be unchanged on the server so that the rest of a file fits the bytes that we
// have.
type origin struct {
	URL          string `json:"url"` // without credentials
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
}

// partial is a download in progress: a locked file with the bytes so far, and beside it a record of
// their origin.
type partial struct {
	unfinished
	origin origin
}

// download downloads a file into the store. cached is true when another process finished it in the
// meantime.
func (c *Client) download(
	ctx context.Context,
	u *url.URL,
	f File,
	progress Progress,
) (cached bool, err error) {
	part, err := c.lockPartial(ctx, f)
	if err != nil || part == nil {
		return err == nil, err
	}
	defer func() { err = errors.Join(err, part.file.Close()) }()
	if f.Size > 0 && part.size > f.Size ||
		part.size > 0 && part.origin.URL != shown(u) {
		if err := part.restart(origin{}); err != nil {
			return false, err
		}
	}
	for resumed := part.size > 0; ; resumed = false {
		announced, err := c.transfer(ctx, u, f, part, progress)
		switch {
		case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
			// others need the space more than we need the bytes
			return false, errors.Join(err, part.discard())
		case err != nil:
			return false, err // the bytes stay for the next attempt, of this process or another one
		}
		want, got := part.sums.compare(f)
		switch {
		case want == got && (f.Size == 0 || part.size == f.Size):
			return false, part.finish(c.Store)
		case !resumed:
			lie := &MismatchError{
				URL:      shown(u),
				Want:     want,
				Got:      got,
				WantSize: f.Size,
				GotSize:  max(part.size, announced),
			}
			return false, errors.Join(lie, part.discard())
		}
		// Two halves that do not fit (the file changed, or the machine lost power while it wrote
		// the first half) look like a wrong file. Only a download from the first byte is proof.
		if err := part.restart(origin{}); err != nil {
			return false, err
		}
	}
}

// lockPartial returns the locked partial file of a digest. While another process holds it,
// lockPartial waits as long as that file grows. It returns nil when the content has appeared in the
// store.
func (c *Client) lockPartial(ctx context.Context, f File) (*partial, error) {
	path := filepath.Join(c.Store.dir, partialDir, f.key())
	tick := time.NewTicker(waitStep)
	defer tick.Stop()
	lastSize := int64(-1)
	lastGrowth := time.Now()
	// Checked first, so that waiting processes do not create a new file only to remove it.
	for !c.have(f) {
		file, err := tryLock(path, os.O_CREATE)
		if err != nil {
			return nil, err
		}
		if file != nil {
			if c.have(f) { // checked again under the lock: the earlier holder may have finished
				return nil, errors.Join(
					(&partial{unfinished: unfinished{file: file}}).discard(),
					file.Close(),
				)
			}
			return loadPartial(ctx, file, f)
		}
		size := sizeOf(path)
		if size != lastSize {
			lastSize = size
			lastGrowth = time.Now()
		}
		// A server can ask the holder for a pause of two minutes between two stalls.
		if time.Since(lastGrowth) > defaultAttempts*c.stall() {
			return nil, fmt.Errorf(
				"another process downloads to %s and makes no progress: end it, or use another cache: %w",
				path,
				ErrUnreachable,
			)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil, nil
}

// sizeOf returns the size of a file in bytes; 0 if there is none.
func sizeOf(path string) int64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// loadPartial continues with the bytes of the file. Without a readable record of their origin the
// bytes are worthless.
func loadPartial(ctx context.Context, file *os.File, f File) (*partial, error) {
	p := &partial{unfinished: unfinished{file: file, sums: newSums(f)}}
	note, _ := os.ReadFile(p.notePath()) //nolint:errcheck // without a note the bytes are worthless
	if json.Unmarshal(note, &p.origin) != nil {
		err := p.restart(origin{})
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return p, nil
	}
	err := Copy(ctx, p.sums, file, func(n int64) { p.size = n })
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return p, nil
}

func (p *partial) notePath() string { return p.file.Name() + ".json" }

// restart drops the bytes and records the origin of the next ones. The order matters when the
// process is killed in between: a new record must never be beside old bytes.
func (p *partial) restart(from origin) error {
	err := p.file.Truncate(0)
	_, back := p.file.Seek(0, io.SeekStart)
	p.sums.reset()
	p.size = 0
	p.origin = from
	err = errors.Join(err, back)
	if err != nil {
		return &localError{fmt.Errorf("restart download: %w", err)}
	}
	if from == (origin{}) {
		return nil
	}
	note, err := json.Marshal(from)
	if err != nil {
		return &localError{fmt.Errorf("restart download: %w", err)}
	}
	err = replaceFile(p.notePath(), note)
	if err != nil {
		return &localError{fmt.Errorf("restart download: %w", err)}
	}
	return nil
}

// discard removes the download and its record.
func (p *partial) discard() error {
	return errors.Join(
		ignoreMissing(os.Remove(p.notePath())),
		ignoreMissing(os.Remove(p.file.Name())),
	)
}

// finish publishes the verified bytes.
func (p *partial) finish(s *Store) error {
	note := p.notePath()
	if err := s.publish(p.file, p.sums); err != nil {
		return err
	}
	return ignoreMissing(os.Remove(note))
}
