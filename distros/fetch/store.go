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
	namesDir     = "blobs/sha512" // for content that was requested by its sha512: links to the blob
	tmpDir       = "tmp"          // content that a Writer writes, with a flock while the writer lives
	partialDir   = "partial"      // incomplete downloads, which a later process resumes
	rejectedDir  = "rejected"     // downloads with wrong content, for people to inspect
	documentsDir = "documents"    // records of Latest for each URL; the content itself is a blob
)

// partialLife is how long an abandoned partial download is kept: after two weeks no process comes back to it,
// and a driver archive is several hundred megabytes.
const partialLife = 14 * 24 * time.Hour

// Store is a folder of immutable files named by the sha256 of their content. Any number of processes may use
// one folder at the same time: content appears by rename, never half written, and flock(2) protects every
// file in progress.
type Store struct{ dir string }

// OpenStore creates the folder if it is missing, and removes the files of dead processes from its tmp folder.
// It returns an error when the folder cannot be created or is not writable.
func OpenStore(dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache %s: %w", dir, err)
	}
	for _, sub := range []string{blobsDir, namesDir, tmpDir, partialDir, rejectedDir, documentsDir} {
		if err := os.MkdirAll(filepath.Join(abs, sub), 0o755); err != nil { //nolint:gosec // holds nothing secret, and several users may share it
			return nil, fmt.Errorf("%s: %w", abs, diskFull(abs, err))
		}
	}
	s := &Store{dir: abs}
	probe, err := s.Create()
	if err != nil {
		return nil, err
	}
	if err := probe.Close(); err != nil {
		return nil, err
	}
	sweep(filepath.Join(abs, tmpDir), 0)
	sweep(filepath.Join(abs, partialDir), partialLife)
	return s, nil
}

// Dir returns the absolute path of the store.
func (s *Store) Dir() string { return s.dir }

// Path returns the path that content with this digest has or would have. A digest is a sha256 of 64 or a
// sha512 of 128 lower-case hex digits. For anything else Path returns "", so that no input leads outside of
// the store.
func (s *Store) Path(digest string) string {
	switch kind(digest) {
	case "sha256":
		return filepath.Join(s.dir, blobsDir, digest)
	case "sha512":
		return filepath.Join(s.dir, namesDir, digest)
	}
	return ""
}

// Has reports whether the store has content with this sha256, or content that was requested by this sha512.
func (s *Store) Has(digest string) bool {
	_, ok := s.size(digest)
	return ok
}

// size returns the length of stored content, in bytes, and whether it exists.
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

// Open opens stored content for reading. The error is fs.ErrNotExist when the store does not have it.
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

// publish moves a complete file into the blobs. Another process may have been faster: both have the same
// bytes, so the existing file stays, unless its size shows that it was damaged since. The blob is written
// before a link to it.
func (s *Store) publish(f *os.File, of sums) error {
	if err := s.moveIntoBlobs(f, of.sha256()); err != nil {
		return err
	}
	if of.hash512 == nil {
		return nil
	}
	return s.link(of.sha512(), of.sha256())
}

// link makes a blob available by its sha512 too. It replaces a link to a missing or damaged blob.
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

func (s *Store) moveIntoBlobs(f *os.File, sha256hex string) error {
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
	// Read-only only under its final name: under the other name, processes that wait for the lock must be able
	// to open it.
	if err := f.Chmod(0o444); err != nil {
		return fmt.Errorf("store %s: %w", sha256hex, err)
	}
	return syncDir(filepath.Dir(to))
}

// syncDir makes renames in a folder survive a power cut. File systems that cannot sync a folder return
// EINVAL; nothing is lost.
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
