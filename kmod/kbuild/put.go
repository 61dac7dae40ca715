package kbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Put copies a set into the cache and returns the copy. The entry appears whole or not at all: Put
// writes it under another name, syncs and renames it. If the cache has a whole set of the same key
// and signer with at least these modules, Put keeps and returns that; it replaces a damaged one.
// After an error (unix.ENOSPC, ctx's cause) nothing of the new entry is left.
func (c Cache) Put(ctx context.Context, s *Set) (*Set, error) {
	fail := func(err error) (*Set, error) {
		return nil, fmt.Errorf("store the modules %s in %s: %w", s.Key, c.Dir, err)
	}
	if len(s.Modules) == 0 || len(s.Modules) > maxSetModules {
		return fail(fmt.Errorf("a set of %d modules", len(s.Modules)))
	}
	there, err := c.Get(ctx, s.Key)
	_, damaged := errors.AsType[*CorruptError](err)
	if err != nil && !damaged && !errors.Is(err, ErrMiss) {
		return fail(err)
	}
	if there.holds(s) {
		return there, nil
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fail(err)
	}
	temp, err := os.MkdirTemp(c.Dir, tempPrefix)
	if err != nil {
		return fail(err)
	}
	m, err := writeEntry(ctx, temp, s)
	if err != nil {
		return fail(errors.Join(err, os.RemoveAll(temp)))
	}
	name := s.Key.String()
	err = errors.Join(c.replace(name, temp), syncDir(c.Dir))
	if err != nil {
		return fail(errors.Join(err, os.RemoveAll(temp)))
	}
	return m.set(filepath.Join(c.Dir, name)), nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// holds reports whether a set has the modules of another one, and its signer.
func (s *Set) holds(other *Set) bool {
	if s == nil || !bytes.Equal(s.Certificate, other.Certificate) {
		return false
	}
	return !slices.ContainsFunc(other.Modules, func(f File) bool {
		_, ok := s.File(f.Name)
		return !ok
	})
}

// writeEntry fills dir, the manifest last.
func writeEntry(ctx context.Context, dir string, s *Set) (*manifest, error) {
	if err := os.Chmod(dir, 0o755); err != nil { // MkdirTemp creates it private
		return nil, err
	}
	m := &manifest{
		Schema:      manifestSchema,
		Key:         s.Key,
		SigHash:     s.SigHash,
		Certificate: s.Certificate,
		Omitted:     s.Omitted,
	}
	for _, f := range s.Modules {
		if !moduleName().MatchString(f.Name) {
			return nil, fmt.Errorf("%q is no name of a module", f.Name)
		}
		entry, err := writeModule(ctx, filepath.Join(dir, f.Name+".ko"), f)
		if err != nil {
			return nil, err
		}
		m.Modules = append(m.Modules, entry)
	}
	raw, err := m.seal()
	if err != nil {
		return nil, err
	}
	if err := create(filepath.Join(dir, ManifestName), func(w io.Writer) error { _, err := w.Write(raw); return err }); err != nil {
		return nil, err
	}
	return m, syncDir(dir)
}

// writeModule copies one module and checks the copy against the description in the set.
func writeModule(ctx context.Context, to string, f File) (manifestModule, error) {
	sum := sha256.New()
	crc := crc64.New(crc64.MakeTable(crc64.ECMA))
	var size int64
	if err := create(to, func(w io.Writer) (err error) {
		size, err = readAll(ctx, f.Path, io.MultiWriter(w, sum, crc), maxModule)
		return err
	}); err != nil {
		return manifestModule{}, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); size != f.Size || got != f.SHA256 {
		return manifestModule{}, fmt.Errorf(
			"%s has changed since it was made: sha256 is %s, not %s",
			f.Path,
			got,
			f.SHA256,
		)
	}
	return manifestModule{
		Name:   f.Name,
		Size:   size,
		SHA256: f.SHA256,
		CRC64:  fmt.Sprintf("%016x", crc.Sum64()),
		Info:   f.Info,
	}, nil
}

// create writes a new file, to the disk.
func create(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Sync(), f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
