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
)

// Put copies a set into the cache and returns the copy. The entry appears whole or not at all: Put writes it
// under another name, syncs and renames it. If the cache has a whole set of the same key and signer with at
// least these modules, Put keeps and returns that; it moves a damaged one aside. After an error (unix.ENOSPC,
// ctx's cause) nothing of the new entry is left.
func (c Cache) Put(ctx context.Context, s *Set) (*Set, error) {
	fail := func(err error) (*Set, error) {
		return nil, fmt.Errorf("store the modules %s in %s: %w", s.Key, c.Dir, err)
	}
	if len(s.Modules) == 0 || len(s.Modules) > maxSetModules {
		return fail(fmt.Errorf("a set of %d modules", len(s.Modules)))
	}
	switch there, err := c.Get(ctx, s.Key); {
	case err == nil && sameNames(there, s) && bytes.Equal(there.Certificate, s.Certificate):
		return there, nil
	case err == nil:
		// The inputs are equal, but the entry lacks modules or has another signer: the new set replaces it.
	case errors.Is(err, ErrMiss):
	default:
		if _, damaged := errors.AsType[*CorruptError](err); !damaged {
			return fail(err)
		}
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fail(err)
	}
	temp, err := os.MkdirTemp(c.Dir, tempPrefix)
	if err != nil {
		return fail(err)
	}
	m, err := writeEntry(ctx, temp, s)
	dir := filepath.Join(c.Dir, s.Key.String())
	if err == nil {
		err = replace(temp, dir)
	}
	if err == nil {
		err = syncDir(c.Dir)
	}
	// After an exchange the temporary name belongs to the old entry.
	if err := errors.Join(err, os.RemoveAll(temp)); err != nil {
		return fail(err)
	}
	return m.set(dir), nil
}

// replace renames the folder temp to dir. A folder that exists at dir gets the name temp, in the same step.
func replace(temp, dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(temp, dir)
	}
	if err := exchange(temp, dir); err != nil { // a file system without exchange: the entry is missing for a moment
		return errors.Join(os.RemoveAll(dir), os.Rename(temp, dir))
	}
	return nil
}

// sameNames reports whether a has all modules of b.
func sameNames(a, b *Set) bool {
	for _, f := range b.Modules {
		if _, ok := a.File(f.Name); !ok {
			return false
		}
	}
	return true
}

// writeEntry fills dir, the manifest last.
func writeEntry(ctx context.Context, dir string, s *Set) (*manifest, error) {
	if err := os.Chmod(dir, 0o755); err != nil { // MkdirTemp creates it private
		return nil, err
	}
	m := &manifest{Schema: manifestSchema, Key: s.Key, SigHash: s.SigHash, Certificate: s.Certificate, Omitted: s.Omitted}
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
	if err := m.checkCompanions(); err != nil {
		return nil, err
	}
	raw, err := m.seal()
	if err != nil {
		return nil, err
	}
	if _, err := writeSynced(ctx, filepath.Join(dir, ManifestName), bytes.NewReader(raw), io.Discard); err != nil {
		return nil, err
	}
	return m, syncDir(dir)
}

// writeModule copies one module and checks the copy against the description in the set.
func writeModule(ctx context.Context, to string, f File) (manifestModule, error) {
	in, err := os.Open(f.Path)
	if err != nil {
		return manifestModule{}, err
	}
	defer in.Close()
	sum, crc := sha256.New(), crc64.New(crc64.MakeTable(crc64.ECMA))
	size, err := writeSynced(ctx, to, io.LimitReader(in, maxModule), io.MultiWriter(sum, crc))
	if err != nil {
		return manifestModule{}, err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); size != f.Size || got != f.SHA256 {
		return manifestModule{}, fmt.Errorf("%s has changed since it was made: sha256 is %s, not %s", f.Path, got, f.SHA256)
	}
	return manifestModule{Name: f.Name, Size: size, SHA256: f.SHA256, CRC64: fmt.Sprintf("%016x", crc.Sum64()), Info: f.Info}, nil
}

func writeSynced(ctx context.Context, path string, from io.Reader, also io.Writer) (int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, err
	}
	size, err := copyContext(ctx, io.MultiWriter(f, also), from)
	if err == nil {
		err = f.Sync()
	}
	return size, errors.Join(err, f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
