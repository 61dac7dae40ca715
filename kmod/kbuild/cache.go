package kbuild

import (
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

// Cache keeps sets of modules, one folder each, named by its key. One program at a time may write (a node has its lock, an
// image one builder); any number may read. A folder that cannot be written, such as one of an image, can be read all the same.
type Cache struct {
	Dir string // "/var/lib/nvidia-driver/modules"; made by Put
}

// ErrMiss says that the cache has no such set.
var ErrMiss = errors.New("not in the cache")

// CorruptError says that an entry was damaged. It has been moved aside where the cache can be written, so that the next Get is
// a miss.
type CorruptError struct {
	Dir string // where the entry is now
	Why string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the cached modules in %s are damaged: %s; they are not used", e.Dir, e.Why)
}

// prefixes of what is not an entry: of folders that are being written, and of those that were found damaged.
const (
	tempPrefix = ".tmp-"
	badPrefix  = ".bad-"
)

// maxEntries bounds how many folders are looked at.
const maxEntries = 4096

// Get returns the set of a key after a check of every byte. Which modules it has is a matter of what was wanted when it was
// made: look with Set.File. Errors: ErrMiss, *CorruptError, those of files.
func (c Cache) Get(ctx context.Context, k Key) (*Set, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	m, err := readManifest(filepath.Join(c.Dir, k.String()))
	if err == nil && !m.Key.equal(k) {
		err = &damage{"it is the entry of another key"}
	}
	return c.verified(ctx, k.String(), m, err)
}

// Find returns the set that was used last among those whose key matches; damaged ones are moved aside and passed over.
// ErrMiss when none is left.
func (c Cache) Find(ctx context.Context, match func(Key) bool) (*Set, error) {
	entries, err := c.entries()
	if err != nil {
		return nil, err
	}
	var bad error
	for _, e := range entries {
		m, err := readManifest(filepath.Join(c.Dir, e.name))
		if err == nil && !match(m.Key) {
			continue
		}
		set, err := c.verified(ctx, e.name, m, err)
		if err == nil {
			return set, nil
		}
		if _, damaged := errors.AsType[*CorruptError](err); !damaged && !errors.Is(err, ErrMiss) {
			return nil, err
		}
		bad = err
	}
	if bad != nil {
		return nil, fmt.Errorf("%w (%w)", ErrMiss, bad)
	}
	return nil, ErrMiss
}

// Has says whether there is a set whose key matches, as far as its manifest goes: the modules are not read, and nothing is moved.
func (c Cache) Has(match func(Key) bool) bool {
	entries, err := c.entries()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(entries, func(e entry) bool {
		m, err := readManifest(filepath.Join(c.Dir, e.name))
		return err == nil && match(m.Key)
	})
}

// verified finishes what readManifest began: bytes are compared, what is damaged goes aside, what is whole counts as used now.
func (c Cache) verified(ctx context.Context, name string, m *manifest, err error) (*Set, error) {
	dir := filepath.Join(c.Dir, name)
	if err == nil {
		err = m.verify(ctx, dir)
	}
	if broken, ok := errors.AsType[*damage](err); ok {
		return nil, c.aside(name, broken.why)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Lstat(dir); statErr == nil {
			return nil, c.aside(name, "it is not complete")
		}
		return nil, fmt.Errorf("modules %s: %w", name, ErrMiss)
	}
	if err != nil {
		return nil, fmt.Errorf("read the cached modules %s: %w", dir, err)
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now) // only the order of Find and Prune depends on it; an image's cache cannot be written
	return m.set(dir), nil
}

// aside renames a damaged entry: it may tell what happened, and Prune removes it.
func (c Cache) aside(name, why string) error {
	dir := filepath.Join(c.Dir, name)
	for n := range 100 {
		to := filepath.Join(c.Dir, fmt.Sprintf("%s%s-%d", badPrefix, name, n))
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		if err := os.Rename(dir, to); err != nil {
			break // a cache that cannot be written: it stays a *CorruptError each time, which is right
		}
		return &CorruptError{Dir: to, Why: why}
	}
	return &CorruptError{Dir: dir, Why: why}
}

type entry struct {
	name string
	used time.Time
}

// entries lists the folders of the cache, the one used last first.
func (c Cache) entries() ([]entry, error) {
	f, err := os.Open(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the cached modules: %w", err)
	}
	defer f.Close()
	list, err := f.ReadDir(maxEntries)
	if err != nil && len(list) == 0 && !isEnd(err) {
		return nil, fmt.Errorf("list the cached modules: %w", err)
	}
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
	slices.SortFunc(all, func(a, b entry) int {
		if c := b.used.Compare(a.used); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return all, nil
}

// Prune removes all but the keep entries that were used last, and what was found damaged or was never finished.
func (c Cache) Prune(keep int) error {
	entries, err := c.entries()
	if err != nil {
		return err
	}
	var errs []error
	for i, e := range entries {
		if i >= max(keep, 0) {
			errs = append(errs, c.remove(e.name))
		}
	}
	list, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), badPrefix) || strings.HasPrefix(e.Name(), tempPrefix) {
			errs = append(errs, os.RemoveAll(filepath.Join(c.Dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("prune the cached modules in %s: %w", c.Dir, err)
	}
	return nil
}

// remove takes an entry out of sight first, so that nobody finds half of it.
func (c Cache) remove(name string) error {
	gone := filepath.Join(c.Dir, tempPrefix+"gone-"+name)
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(c.Dir, name), gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}
