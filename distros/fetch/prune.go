package fetch

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// freshUse is how long a file counts as just used. It is far below the day that Prune keeps files
// at least, so a use need not be noted more often.
const freshUse = time.Hour

// use notes that a file of the store is in use, by its time. The lock keeps Prune from removing it
// between its look at the time and the removal. The file of another user cannot be marked: it goes
// when it is old.
func (s *Store) use(path string) {
	fi, err := os.Lstat(path)
	if err != nil || time.Since(fi.ModTime()) < freshUse {
		return
	}
	unlock, err := s.lockUse(unix.LOCK_SH)
	if err != nil {
		return
	}
	defer unlock()
	_ = os.Chtimes(path, time.Now(), time.Now())
}

func (s *Store) lockUse(how int) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // several users may share it
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// Usage is the room that a part of a store takes.
type Usage struct {
	Kind  string `json:"kind"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// Usage returns what takes room in the store, sorted by kind: content by the kind of the record that
// names it, or "download"; records without content by theirs; the other folders by their names.
func (s *Store) Usage() ([]Usage, error) {
	named := map[string]string{} // kinds, by the names of files
	found := map[string]Usage{}
	records, err := os.ReadDir(s.keys)
	for _, e := range records {
		kind, _, _ := strings.Cut(e.Name(), "-")
		r, err := readRecord(filepath.Join(s.keys, e.Name()))
		if err != nil || kind == sha512Record {
			continue
		}
		named[cmp.Or(r.Blob, e.Name())] = kind
	}
	err = errors.Join(
		err,
		filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return ignoreMissing(err) // a build may have removed it
			}
			fi, err := e.Info()
			if err != nil {
				return ignoreMissing(err)
			}
			dir := strings.TrimPrefix(path, s.dir+"/")
			folder, _, _ := strings.Cut(dir, "/")
			if strings.HasPrefix(dir, blobsDir+"/") {
				folder = "download"
			}
			kind := cmp.Or(named[e.Name()], folder)
			found[kind] = Usage{kind, found[kind].Files + 1, found[kind].Bytes + fi.Size()}
			return nil
		}),
	)
	return slices.SortedFunc(
		maps.Values(found),
		func(a, b Usage) int { return strings.Compare(a.Kind, b.Kind) },
	), err
}

// Prune removes content and records that nothing has used for the duration, which must be a day at
// least, and downloads that were interrupted before that. It is safe beside processes that use the
// store. Records of the kinds to keep stay.
func (s *Store) Prune(unused time.Duration, keep ...string) (gone Usage, err error) {
	sweep(filepath.Join(s.dir, partialDir), unused)
	for _, dir := range []string{s.keys, filepath.Join(s.dir, blobsDir)} {
		files, err := os.ReadDir(dir)
		if err != nil {
			return gone, err
		}
		for _, e := range files {
			if kind, _, _ := strings.Cut(e.Name(), "-"); slices.Contains(keep, kind) {
				continue
			}
			size, err := s.removeUnused(filepath.Join(dir, e.Name()), unused)
			if err != nil {
				return gone, err
			}
			if size >= 0 {
				gone.Files++
				gone.Bytes += size
			}
		}
	}
	return gone, nil
}

// removeUnused returns the size of a file that it removed, else -1.
func (s *Store) removeUnused(path string, unused time.Duration) (int64, error) {
	unlock, err := s.lockUse(unix.LOCK_EX)
	if err != nil {
		return -1, err
	}
	defer unlock()
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() || time.Since(fi.ModTime()) < unused {
		return -1, ignoreMissing(err)
	}
	return fi.Size(), os.Remove(path)
}
