package kbuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Cache keeps sets of modules, one folder each, named by its key. One program at a time may write
// (a node has its lock, an image one builder); any number may read. A cache that cannot be written,
// such as one in an image, can still be read.
type Cache struct {
	Dir string // "/var/lib/nvidia-driver/modules"; Put creates it
}

// ErrMiss says that the cache has no such set.
var ErrMiss = errors.New("not in the cache")

// CorruptError says that an entry is damaged. It stays until Put replaces it, or Prune finds that it
// was not used for long: files of it may be whole, and what seems damaged to this version of the
// program may be of a newer one.
type CorruptError struct {
	Dir string // of the entry; "" for a manifest that is in no cache
	Why string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf(
		"the cached modules in %s are damaged: %s; they are not used",
		cmp.Or(e.Dir, ManifestName),
		e.Why,
	)
}

func corrupt(format string, args ...any) error {
	return &CorruptError{Why: fmt.Sprintf(format, args...)}
}

// Name prefixes of folders that are not entries: unfinished ones, and those that earlier versions of
// this program found damaged.
const (
	tempPrefix = ".tmp-"
	badPrefix  = ".bad-"
)

// maxEntries bounds how many folders of a cache are read.
const maxEntries = 4096

// Get returns the set of a key after a check of every byte. The set has the modules that its
// compile was asked for; test for one with Set.File. Errors: ErrMiss, *CorruptError, file errors.
func (c Cache) Get(ctx context.Context, k Key) (*Set, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	return c.verify(ctx, k.String(), func(have Key) error {
		if have.String() != k.String() {
			return corrupt("it is the entry of another key")
		}
		return nil
	})
}

// Find returns the most recently used set whose key matches. It skips damaged ones, and returns
// ErrMiss when none is left.
func (c Cache) Find(ctx context.Context, match func(Key) bool) (*Set, error) {
	entries, err := c.entries()
	if err != nil {
		return nil, err
	}
	var bad error
	for _, e := range entries {
		set, err := c.verify(ctx, e.name, func(have Key) error {
			if !match(have) {
				return errOther
			}
			return nil
		})
		_, damaged := errors.AsType[*CorruptError](err)
		switch {
		case errors.Is(err, errOther):
		case damaged || errors.Is(err, ErrMiss):
			bad = err
		default:
			return set, err
		}
	}
	if bad != nil {
		return nil, fmt.Errorf("%w (%w)", ErrMiss, bad)
	}
	return nil, ErrMiss
}

// Keys returns the keys of all sets. It reads manifests only, no modules.
func (c Cache) Keys() (keys []Key) {
	entries, _ := c.entries() //nolint:errcheck // what cannot be listed has no keys
	for _, e := range entries {
		m, err := readManifest(filepath.Join(c.Dir, e.name))
		if err != nil {
			continue
		}
		keys = append(keys, m.Key)
	}
	return keys
}

// errOther says that an entry is not one that is looked for.
var errOther = errors.New("another key")

// verify reads an entry whose key is right, compares the bytes of its modules, and marks a whole one
// as used now.
func (c Cache) verify(ctx context.Context, name string, right func(Key) error) (*Set, error) {
	dir := filepath.Join(c.Dir, name)
	m, err := readEntry(ctx, dir, right)
	if errors.Is(err, errOther) {
		return nil, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Lstat(dir); statErr != nil {
			return nil, fmt.Errorf("modules %s: %w", name, ErrMiss)
		}
		err = corrupt("it is not complete: %v", err)
	}
	if damage, ok := errors.AsType[*CorruptError](err); ok {
		damage.Dir = dir
		return nil, damage
	}
	if err != nil {
		return nil, fmt.Errorf("read the cached modules %s: %w", dir, err)
	}
	now := time.Now()
	// Only the order of Find and Prune depends on the time, and an image's cache cannot be written.
	_ = os.Chtimes(dir, now, now)
	return m.set(dir), nil
}

func readEntry(ctx context.Context, dir string, right func(Key) error) (*manifest, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	err = right(m.Key)
	if err != nil {
		return nil, err
	}
	return m, m.verify(ctx, dir)
}

type entry struct {
	name string
	used time.Time
}

// entries returns the folders of the cache, the most recently used first.
func (c Cache) entries() ([]entry, error) {
	list, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the cached modules: %w", err)
	}
	list = list[:min(len(list), maxEntries)]
	var all []entry
	for _, e := range list {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		all = append(all, entry{e.Name(), info.ModTime()})
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(b.used.Compare(a.used), strings.Compare(a.name, b.name))
	})
	return all, nil
}

// Prune removes all entries except the keep most recently used and those that have one of the
// needed paths or are in one, and all unfinished ones.
func (c Cache) Prune(keep int, needed ...string) error {
	entries, err := c.entries()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries[min(len(entries), max(keep, 0)):] {
		dir := filepath.Join(c.Dir, e.name)
		holds := func(path string) bool {
			return isWithin(path, dir) || isWithin(dir, path)
		}
		if !slices.ContainsFunc(needed, holds) {
			errs = append(errs, c.remove(e.name))
		}
	}
	for _, prefix := range []string{badPrefix, tempPrefix} {
		left, err := filepath.Glob(filepath.Join(c.Dir, prefix+"*"))
		errs = append(errs, err)
		for _, path := range left {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("prune the cached modules in %s: %w", c.Dir, err)
	}
	return nil
}

func isWithin(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// remove renames an entry before it removes it, so that no reader finds half of it.
func (c Cache) remove(name string) error {
	return c.replace(name, "")
}

// replace gives the name of an entry to a new one, if there is one, and removes the old entry then.
func (c Cache) replace(name, with string) error {
	dir := filepath.Join(c.Dir, name)
	old := filepath.Join(c.Dir, tempPrefix+"gone-"+name)
	err := cmp.Or(os.RemoveAll(old), ignoreMissing(os.Rename(dir, old)))
	if err != nil {
		return err
	}
	if with != "" {
		err = os.Rename(with, dir)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Rename(old, dir)))
	}
	return os.RemoveAll(old)
}
