package fetch

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Names of the folders inside a store.
const (
	blobsDir     = "blobs/sha256" // finished content, named by its digest, mode 0444
	namesDir     = "blobs/sha512" // for content that was asked for by its sha512: links to the blob
	tmpDir       = "tmp"          // content being written by a Writer, flocked while its writer lives
	partialDir   = "partial"      // downloads not yet complete, resumed by whoever comes next
	rejectedDir  = "rejected"     // downloads that were not what they should be, for people to look at
	documentsDir = "documents"    // what Latest knows of each URL; the content itself is a blob
)

// partialLife is how long an abandoned partial download is kept: nobody comes back to one after two weeks, and a driver
// archive is several hundred megabytes.
const partialLife = 14 * 24 * time.Hour

// Store is a folder of immutable files named by the sha256 of their content. Any number of processes may use one folder
// at once: content appears by rename, never half written, and every file in progress is held by flock(2).
type Store struct{ dir string }

// OpenStore creates the folder where it is missing and removes what dead processes left in its tmp folder. It fails
// when the folder cannot be created or is not writable.
func OpenStore(dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache %s: %w", dir, err)
	}
	for _, sub := range []string{blobsDir, namesDir, tmpDir, partialDir, rejectedDir, documentsDir} {
		if err := os.MkdirAll(filepath.Join(abs, sub), 0o755); err != nil { //nolint:gosec // holds nothing secret, and several users may share it
			return nil, fmt.Errorf("open cache %s: %w; name another folder (driver-build: --cache, driver-entrypoint: --state-dir)", abs, diskFull(abs, err))
		}
	}
	s := &Store{dir: abs}
	sweep(filepath.Join(abs, tmpDir), 0)
	sweep(filepath.Join(abs, partialDir), partialLife)
	return s, nil
}

// Dir is the absolute path of the store.
func (s *Store) Dir() string { return s.dir }

// Path is where content with this digest is, or would be: a sha256 of 64 or a sha512 of 128 lower-case hex digits. It is ""
// for anything that is neither, so that no caller can be led outside of the store.
func (s *Store) Path(digest string) string {
	switch kind(digest) {
	case "sha256":
		return filepath.Join(s.dir, blobsDir, digest)
	case "sha512":
		return filepath.Join(s.dir, namesDir, digest)
	}
	return ""
}

// Has tells whether the store holds content with this sha256, or got content with this sha512 for somebody who asked by it.
func (s *Store) Has(digest string) bool {
	_, ok := s.size(digest)
	return ok
}

// size is the length of stored content, in bytes, and whether it is there at all.
func (s *Store) size(digest string) (int64, bool) {
	path := s.Path(digest)
	if kind(digest) == "sha512" {
		to, err := os.Readlink(path)
		if err != nil {
			return 0, false
		}
		path = s.Path(filepath.Base(to))
	}
	if path == "" {
		return 0, false
	}
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return 0, false
	}
	return fi.Size(), true
}

// Open opens stored content for reading; the error is fs.ErrNotExist when the store does not have it.
func (s *Store) Open(digest string) (*os.File, error) {
	path := s.Path(digest)
	if path == "" {
		return nil, fmt.Errorf("open %q in cache %s: not a sha256 or sha512 in lower-case hex: %w", digest, s.dir, fs.ErrInvalid)
	}
	f, err := os.Open(path) //nolint:gosec // the name was checked to be hex digits
	if err != nil {
		return nil, fmt.Errorf("open cached content: %w", err)
	}
	return f, nil
}

// publish moves a complete file to its place among the blobs. Another process may have been faster: both hold the same
// bytes, so the one that is there stays, unless its size shows that it was damaged since. The blob comes before a link to it.
func (s *Store) publish(f *os.File, of sums) error {
	if err := s.place(f, of.sha256()); err != nil {
		return err
	}
	if of.long == nil {
		return nil
	}
	return s.link(of.sha512(), of.sha256())
}

// link makes a blob known by its sha512 too. What was there led to a blob that is gone or damaged.
func (s *Store) link(sha512hex, sha256hex string) error {
	to := s.Path(sha512hex)
	target := filepath.Join("..", filepath.Base(blobsDir), sha256hex)
	if have, err := os.Readlink(to); err == nil && have == target {
		return nil
	}
	tmp := filepath.Join(s.dir, namesDir, "."+rand.Text())
	if err := os.Symlink(target, tmp); err != nil {
		return fmt.Errorf("store %s: %w", sha512hex, diskFull(tmp, err))
	}
	if err := os.Rename(tmp, to); err != nil {
		return errors.Join(fmt.Errorf("store %s: %w", sha512hex, diskFull(to, err)), os.Remove(tmp))
	}
	return syncDir(filepath.Dir(to))
}

func (s *Store) place(f *os.File, sha256hex string) error {
	to := s.Path(sha256hex)
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("store %s: %w", sha256hex, err)
	}
	if size, ok := s.size(sha256hex); ok && size == fi.Size() {
		if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop duplicate of cached content: %w", err)
		}
		return nil
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("store %s: %w", sha256hex, diskFull(f.Name(), err))
	}
	if err := os.Rename(f.Name(), to); err != nil {
		return fmt.Errorf("store %s: %w", sha256hex, diskFull(to, err))
	}
	// Read-only under its final name alone: under the other one, processes that wait for the lock must be able to open it.
	if err := f.Chmod(0o444); err != nil {
		return fmt.Errorf("store %s: %w", sha256hex, err)
	}
	return syncDir(filepath.Dir(to))
}

// syncDir makes renames in a folder survive a power cut. File systems that cannot sync a folder say EINVAL: nothing is lost.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // a folder of the store
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	defer d.Close() //nolint:errcheck // opened for reading
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("sync %s: %w", dir, diskFull(dir, err))
	}
	return nil
}
