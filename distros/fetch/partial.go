package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// waitStep is the interval at which a process checks whether another one, which downloads the same file, has
// finished.
const waitStep = 100 * time.Millisecond

// partialSlots bounds how many processes download the same file separately because the earlier ones hang.
const partialSlots = 16

// origin is what must be unchanged on the server so that the rest of a file fits the bytes that we have.
type origin struct {
	URL          string `json:"url"` // without credentials
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
}

// partial is a download in progress: a locked file with the bytes so far, and beside it a record of their
// origin.
type partial struct {
	file   *os.File
	sums   sums
	size   int64
	origin origin
}

// lockPartial returns the locked partial file of a digest. While another process holds it, lockPartial waits
// as long as that file grows; when the file has not grown for the stall time, it takes another slot. It
// returns nil when the content has appeared in the store.
func (c *Client) lockPartial(ctx context.Context, f File) (*partial, error) {
	tick := time.NewTicker(waitStep)
	defer tick.Stop()
	slot, lastSize, lastGrowth := 0, int64(-1), time.Now()
	for {
		// Checked first, so that waiting processes do not create a new file only to remove it.
		if c.have(f) {
			return nil, nil
		}
		path := filepath.Join(c.Store.dir, partialDir, f.key())
		if slot > 0 {
			path += "." + strconv.Itoa(slot)
		}
		file, err := tryLock(path, os.O_CREATE)
		if err != nil {
			return nil, err
		}
		if c.have(f) { // checked again under the lock: the earlier holder may have finished
			if file != nil {
				return nil, (&partial{file: file}).discard()
			}
			return nil, nil
		}
		if file != nil {
			return loadPartial(ctx, file, f)
		}
		if fi, err := os.Stat(path); err == nil && fi.Size() != lastSize {
			lastSize, lastGrowth = fi.Size(), time.Now()
		}
		if time.Since(lastGrowth) > c.stall()+c.stall()/2 {
			if slot++; slot == partialSlots {
				return nil, fmt.Errorf("%d other processes download to %s and none makes progress: %w", slot, path, ErrUnreachable)
			}
			lastSize, lastGrowth = -1, time.Now()
			continue
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// loadPartial continues with the bytes of the file. Without a readable record of their origin the bytes are
// worthless.
func loadPartial(ctx context.Context, file *os.File, f File) (*partial, error) {
	p := &partial{file: file, sums: newSums(f)}
	note, err := os.ReadFile(p.notePath())
	if err == nil {
		err = json.Unmarshal(note, &p.origin)
	}
	if err != nil {
		p.origin = origin{}
		return p, closeOn(p.restart(origin{}), file)
	}
	err = Copy(ctx, p.sums, file, func(n int64) { p.size = n })
	return p, closeOn(err, file)
}

func closeOn(err error, f *os.File) error {
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

func (p *partial) notePath() string { return p.file.Name() + ".json" }

// Write appends to the download.
func (p *partial) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	_, _ = p.sums.Write(b[:n]) // never fails
	p.size += int64(n)
	if err != nil {
		return n, &localError{diskFull(p.file.Name(), err)}
	}
	return n, nil
}

// restart drops the bytes and records the origin of the next ones. The order matters when the process is
// killed in between: a new record must never be beside old bytes.
func (p *partial) restart(from origin) error {
	if err := p.file.Truncate(0); err != nil {
		return &localError{fmt.Errorf("restart download: %w", err)}
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return &localError{fmt.Errorf("restart download: %w", err)}
	}
	p.sums.reset()
	p.size, p.origin = 0, from
	if from == (origin{}) {
		return nil
	}
	note, err := json.Marshal(from)
	if err != nil {
		return &localError{err}
	}
	if err := replaceFile(p.notePath(), note); err != nil {
		return &localError{err}
	}
	return nil
}

// discard removes the download and its record, and unlocks.
func (p *partial) discard() error {
	path := p.file.Name()
	err := errors.Join(ignoreMissing(os.Remove(p.notePath())), ignoreMissing(os.Remove(path)), p.file.Close())
	if err != nil {
		return &localError{fmt.Errorf("discard %s: %w", path, err)}
	}
	return nil
}

// finish publishes the verified bytes.
func (p *partial) finish(s *Store) error {
	note := p.notePath()
	if err := s.publish(p.file, p.sums); err != nil {
		return errors.Join(&localError{err}, p.file.Close())
	}
	if err := errors.Join(ignoreMissing(os.Remove(note)), p.file.Close()); err != nil {
		return &localError{err}
	}
	return nil
}

// reject moves the bytes to a place where people can inspect them, and returns that path; "" if it cannot.
func (p *partial) reject(s *Store, url string) string {
	to := filepath.Join(s.dir, rejectedDir, safeName(url)+"-"+p.sums.sha256()[:12])
	if err := os.Rename(p.file.Name(), to); err != nil { //nolint:gosec // safeName leaves no way out of the folder
		to = ""
	}
	_ = p.discard() // also what could not be moved: its digest is known to be wrong
	return to
}

var unsafeName = lazyregexp.New(`[^A-Za-z0-9._+~-]+`)

// safeName returns the last part of a URL's path, with only characters that are harmless in a file name.
func safeName(url string) string {
	name := unsafeName().ReplaceAllString(filepath.Base(url), "_")
	name = name[:min(len(name), 100)]
	if name == "" || name[0] == '.' {
		name = "_" + name
	}
	return name
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// replaceFile writes a small file as a whole.
func replaceFile(path string, data []byte) error {
	if err := atomicwriter.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, diskFull(path, err))
	}
	return nil
}
