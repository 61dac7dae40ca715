package fetch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Names of the folders inside a store.
const (
	blobsDir = "blobs/sha256" // finished content, named by its digest, mode 0444
	keysDir  = "keys"         // records: what a store knows under a key
	// incomplete downloads, which a later process resumes, and what a Writer writes
	partialDir = "partial"
)

// Store is a folder of immutable files named by the sha256 of their content, and of records. Any
// number of processes may use one folder at the same time: content appears by rename, never half
// written, and flock(2) protects every file in progress.
type Store struct{ dir, keys string }

// OpenStore creates the folder if it is missing, and removes what dead processes left in it. It
// returns an error when the folder cannot be created or is not writable.
func OpenStore(dir string) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache %s: %w", dir, err)
	}
	s := &Store{dir: abs, keys: filepath.Join(abs, keysDir)}
	for _, sub := range []string{blobsDir, keysDir, partialDir} {
		if err := os.MkdirAll(filepath.Join(abs, sub), 0o755); err != nil { //nolint:gosec // holds nothing secret, and several users may share it
			return nil, fmt.Errorf("%s: %w", abs, err)
		}
	}
	probe, err := s.Create()
	if err != nil {
		return nil, err
	}
	if err := probe.Close(); err != nil {
		return nil, err
	}
	sweep(filepath.Join(abs, partialDir), partialLife)
	return s, nil
}

// WithRecords returns a store with the same content whose records are in another folder, which must
// exist.
func (s *Store) WithRecords(dir string) *Store { return &Store{dir: s.dir, keys: dir} }

// Dir returns the absolute path of the store.
func (s *Store) Dir() string { return s.dir }

// Path returns the path that content with this digest has or would have. A digest is a sha256 of 64
// lower-case hex digits, or a sha512 of 128 of content that was requested by it. For anything else
// Path returns "", so that no input leads outside of the store.
func (s *Store) Path(digest string) string {
	if kind(digest) == "sha512" {
		digest, _ = s.Lookup(sha512Record, digest, nil)
	}
	if kind(digest) != "sha256" {
		return ""
	}
	return filepath.Join(s.dir, blobsDir, digest)
}

// Has reports whether the store has content with this sha256, or content that was requested by this
// sha512. Prune then leaves it alone for a day at least.
func (s *Store) Has(digest string) bool {
	_, ok := s.size(digest)
	return ok
}

// size returns the length of stored content, in bytes, and whether it exists.
func (s *Store) size(digest string) (int64, bool) {
	path := s.Path(digest)
	if path == "" {
		return 0, false
	}
	s.use(path)
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return 0, false
	}
	return fi.Size(), true
}

// Open opens stored content for reading. The error is fs.ErrNotExist when the store does not have
// it.
func (s *Store) Open(digest string) (*os.File, error) {
	if kind(digest) == "" {
		return nil, fmt.Errorf(
			"open %q in cache %s: not a sha256 or sha512 in lower-case hex: %w",
			digest,
			s.dir,
			fs.ErrInvalid,
		)
	}
	path := s.Path(digest)
	s.use(path)
	f, err := os.Open(path) //nolint:gosec // the name was checked to be hex digits
	if err != nil {
		return nil, fmt.Errorf("open cached content: %w", err)
	}
	return f, nil
}

// Read returns small stored content. If it is damaged, the error is a *MismatchError.
func (s *Store) Read(digest string) (data []byte, err error) {
	path := s.Path(digest)
	s.use(path)
	data, err = os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read cached content: %w", err)
	}
	got := sha256Of(data)
	if got != digest {
		return nil, &MismatchError{URL: path, Want: digest, Got: got, Named: true}
	}
	return data, nil
}

// publish moves a complete file into the blobs. Another process may have been faster: both have the
// same bytes, so the existing file stays, unless its size shows that it was damaged since.
func (s *Store) publish(f *os.File, of sums) error {
	digest := of.sha256()
	if err := s.move(f, digest); err != nil {
		return fmt.Errorf("store %s: %w", digest, err)
	}
	if of.hash512 == nil {
		return nil
	}
	return s.Note(sha512Record, of.sha512(), digest, nil)
}

func (s *Store) move(f *os.File, digest string) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if size, ok := s.size(digest); ok && size == fi.Size() {
		return ignoreMissing(os.Remove(f.Name()))
	}
	to := s.Path(digest)
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), to); err != nil {
		return err
	}
	// Read-only only under its final name: under the other name, processes that wait for the lock
	// must be able to open it.
	if err := f.Chmod(0o444); err != nil {
		return err
	}
	// The rename survives a power cut. File systems that cannot sync a folder return EINVAL;
	// nothing is lost.
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// RemoveDamaged looks whether stored content with a digest is what its name says. If not, something
// damaged the disk or the file: RemoveDamaged then reads everything in the store and removes what
// is damaged, so that it counts as missing.
func (s *Store) RemoveDamaged(digest string) (removed int, err error) {
	path := s.Path(digest)
	if path == "" || s.isSound(filepath.Base(path)) {
		return 0, nil
	}
	all, err := os.ReadDir(filepath.Join(s.dir, blobsDir))
	for _, e := range all {
		if kind(e.Name()) == "sha256" && !s.isSound(e.Name()) {
			err = errors.Join(err, ignoreMissing(os.Remove(s.Path(e.Name()))))
			removed++
		}
	}
	return removed, err
}

// isSound says whether a blob has the content that its name says. One that cannot be opened, because
// it is not there or this process may not, is not known to be damaged.
func (s *Store) isSound(digest string) bool {
	f, err := os.Open(s.Path(digest))
	if err != nil {
		return true
	}
	defer f.Close() //nolint:errcheck // opened for reading
	sums := newSums(File{})
	_, err = io.Copy(sums, f)
	return err == nil && sums.sha256() == digest
}

// partialLife is how long an abandoned partial download is kept: after two weeks no process comes
// back to it, and a driver archive is several hundred megabytes.
const partialLife = 14 * 24 * time.Hour
