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
	"regexp"
	"strconv"
	"time"
)

// waitStep is how often a process looks whether another one, which downloads the same file, is done.
const waitStep = 100 * time.Millisecond

// partialSlots bounds how many processes download one file each on its own because the ones before them hang.
const partialSlots = 16

// origin is what must be unchanged at the server for the rest of a file to fit what we have of it.
type origin struct {
	URL          string `json:"url"` // without credentials
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
}

// partial is a download in progress: a locked file with the bytes so far, and beside it where they came from.
type partial struct {
	file   *os.File
	sums   sums
	size   int64
	origin origin
}

// lockPartial takes the partial file of a digest. While another process has it, it waits as long as that file grows;
// when it has not grown for the stall time, it takes another slot. It returns nil when the content has appeared.
func (c *Client) lockPartial(ctx context.Context, f File) (*partial, error) {
	tick := time.NewTicker(waitStep)
	defer tick.Stop()
	slot, lastSize, lastGrowth := 0, int64(-1), time.Now()
	for {
		if c.have(f) { // looked at first, so that those who waited do not make a new file only to remove it
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
		if c.have(f) { // looked at again under the lock: whoever held it before us may have finished
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
				return nil, fmt.Errorf("%d other processes download to %s and none gets ahead: %w", slot, path, ErrUnreachable)
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

// loadPartial continues with what the file holds. Without a readable note of its origin the bytes are worth nothing.
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
	err = copyCtx(ctx, p.sums, file, func(n int64) { p.size = n })
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
	_, _ = p.sums.Write(b[:n]) // a hash never fails
	p.size += int64(n)
	if err != nil {
		return n, &localError{diskFull(p.file.Name(), err)}
	}
	return n, nil
}

// restart forgets the bytes and notes where the next ones come from. The order matters to a process killed in between:
// never may a new note stand beside old bytes.
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

// discard removes the download and its note, and unlocks.
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

// reject moves the bytes to where people can look at them and returns that path, "" if it cannot.
func (p *partial) reject(s *Store, url string) string {
	to := filepath.Join(s.dir, rejectedDir, safeName(url)+"-"+p.sums.sha256()[:12])
	if err := os.Rename(p.file.Name(), to); err != nil { //nolint:gosec // safeName leaves no way out of the folder
		to = ""
	}
	_ = p.discard() // what could not be moved goes too: its digest is known to be wrong
	return to
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._+~-]+`)

// safeName is the last part of a URL's path, in characters that are harmless in a file name.
func safeName(url string) string {
	name := unsafeName.ReplaceAllString(filepath.Base(url), "_")
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

// replaceFile writes a small file by way of a temporary name.
func replaceFile(path string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return diskFull(path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("write %s: %w", path, diskFull(path, err))
		}
	}()
	if _, err := tmp.Write(data); err != nil {
		return errors.Join(err, tmp.Close())
	}
	if err := errors.Join(tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
