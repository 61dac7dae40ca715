package blobstat

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
)

// Layouts has the records of all layouts that one call writes to, so that each is read and written once. nil
// remembers nothing.
type Layouts struct {
	cache string
	mu    sync.Mutex
	all   map[string]*Record // by folder
}

// NewLayouts returns the records that a cache has.
func NewLayouts(cache string) *Layouts { return &Layouts{cache: cache, all: map[string]*Record{}} }

// Of returns the record of a folder of blobs.
func (l *Layouts) Of(dir string) *Record {
	if l == nil {
		return Open("", dir)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	dir = filepath.Clean(dir)
	if l.all[dir] == nil {
		l.all[dir] = Open(l.cache, dir)
	}
	return l.all[dir]
}

// Save writes all records that changed.
func (l *Layouts) Save(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all error
	for _, r := range l.all {
		all = errors.Join(all, r.Save(ctx))
	}
	return all
}
