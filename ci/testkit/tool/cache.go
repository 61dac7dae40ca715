package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// CacheDir returns the folder of a cache, which exists: that in an environment variable if it is
// set, and otherwise driver-build/NAME in the user's cache.
func CacheDir(name, variable string) (string, error) {
	dir := os.Getenv(variable)
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(user, "driver-build", name)
	}
	return dir, os.MkdirAll(dir, 0o755)
}

const (
	lockPrefix    = ".lock-" // a lock file stays: a process may wait for it
	partialPrefix = ".partial-"
)

// Once makes a file or folder with build, under another name, if it does not exist. Processes that
// want the same one wait for each other. Its time becomes that of this use.
func Once(path string, build func(partial string) error) error {
	dir, name := filepath.Split(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(dir+lockPrefix+name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	partial := dir + partialPrefix + name
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := build(partial); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	// An unpacked image has the old time of its archive; Prune would remove what was just made.
	now = time.Now()
	if err := os.Chtimes(partial, now, now); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	return os.Rename(partial, path)
}

// Cached returns the path of PREFIX-KEY in a folder of the cache, which build makes as in Once. KEY
// is that of CacheKey. Entries with the same prefix are pruned.
func Cached(t testing.TB, folder, prefix string, build func(partial string) error, texts []string, folders ...string) string {
	t.Helper()
	path := filepath.Join(folder, prefix+require.Value(CacheKey(texts, folders...))(t))
	require.NoErrorf(t, Once(path, build), "make %s", path)
	require.NoError(t, Prune(filepath.Join(folder, prefix+"[0-9a-f]*")))
	return path
}

// Of the entries that match a pattern, Prune keeps those that were used last: kept of them, and all
// within a time, because another process may use them now.
const (
	kept = 2
	used = 3 * time.Hour
)

// Prune removes entries that were not used for long, and what killed processes began to make.
func Prune(pattern string) error {
	return errors.Join(
		prune(pattern, kept, used),
		prune(filepath.Join(filepath.Dir(pattern), partialPrefix+"*"), 0, 24*time.Hour),
	)
}

func prune(pattern string, keep int, unused time.Duration) error {
	paths, err := filepath.Glob(pattern)
	last := map[string]time.Time{}
	for _, path := range paths {
		info, gone := os.Stat(path)
		if gone == nil { // else another process has removed it
			last[path] = info.ModTime()
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return last[b].Compare(last[a]) })
	for _, path := range paths[min(keep, len(paths)):] {
		if time.Since(last[path]) > unused {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// CacheKey returns a short digest of texts and of the files in folders: names, modes and contents.
func CacheKey(texts []string, folders ...string) (string, error) {
	h := sha256.New()
	part := func(data []byte) {
		sum := sha256.Sum256(data)
		h.Write(sum[:])
	}
	for _, text := range texts {
		part([]byte(text))
	}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			name, _ := filepath.Rel(folder, path)
			part([]byte(name + info.Mode().String()))
			part(data)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
