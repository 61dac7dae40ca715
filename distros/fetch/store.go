package fetch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Names of the folders inside a store.
const (
	blobsDir     = "blobs/sha256" // finished content, named by its digest, mode 0444
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
	for _, sub := range []string{blobsDir, tmpDir, partialDir, rejectedDir, documentsDir} {
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

// Path is where content with this digest (64 lower-case hex digits) is, or would be. It is "" for anything that is not
// such a digest, so that no caller can be led outside of the store.
func (s *Store) Path(sha256hex string) string {
	if !isDigest(sha256hex) {
		return ""
	}
	return filepath.Join(s.dir, blobsDir, sha256hex)
}

// Has tells whether the store holds that content.
func (s *Store) Has(sha256hex string) bool {
	_, ok := s.size(sha256hex)
	return ok
}

// size is the length of stored content, in bytes, and whether it is there at all.
func (s *Store) size(sha256hex string) (int64, bool) {
	path := s.Path(sha256hex)
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
func (s *Store) Open(sha256hex string) (*os.File, error) {
	path := s.Path(sha256hex)
	if path == "" {
		return nil, fmt.Errorf("open %q in cache %s: not a sha256 in lower-case hex: %w", sha256hex, s.dir, fs.ErrInvalid)
	}
	f, err := os.Open(path) //nolint:gosec // the name was checked to be 64 hex digits
	if err != nil {
		return nil, fmt.Errorf("open cached content: %w", err)
	}
	return f, nil
}

// publish moves a complete file to its place among the blobs. Another process may have been faster: both hold the same
// bytes, so the one that is there stays, unless its size shows that it was damaged since.
func (s *Store) publish(f *os.File, sha256hex string) error {
	to := s.Path(sha256hex)
	if to == "" {
		return fmt.Errorf("store %q: not a sha256 in lower-case hex: %w", sha256hex, fs.ErrInvalid)
	}
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

func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
