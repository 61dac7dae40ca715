package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// SetAside looks whether stored content with a sha256 is what its name says. If not, something damaged the
// disk or the file, and SetAside reads everything in the store. It moves what is damaged to the folder of
// rejected downloads, so that it counts as missing, and returns the new paths.
func (s *Store) SetAside(ctx context.Context, digest string) (damaged []string, err error) {
	if kind(digest) != "sha256" || !s.Has(digest) {
		return nil, nil
	}
	if sound, err := s.isSound(ctx, digest); sound || err != nil {
		return nil, err
	}
	all, err := os.ReadDir(filepath.Join(s.dir, blobsDir))
	if err != nil {
		return nil, fmt.Errorf("look for damaged files in the cache: %w", err)
	}
	for _, e := range all {
		sound, err := s.isSound(ctx, e.Name())
		if err != nil {
			return damaged, err
		}
		if sound {
			continue
		}
		to := filepath.Join(s.dir, rejectedDir, "damaged-"+e.Name())
		if err := os.Rename(filepath.Join(s.dir, blobsDir, e.Name()), to); err != nil {
			return damaged, fmt.Errorf("set a damaged file of the cache aside: %w", err)
		}
		damaged = append(damaged, to)
	}
	return damaged, nil
}

// isSound says whether a blob has the content that its name says. What is no blob is left alone.
func (s *Store) isSound(ctx context.Context, digest string) (bool, error) {
	if !s.Has(digest) {
		return true, nil
	}
	f, err := s.Open(digest)
	if err != nil {
		return false, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, stoppable{ctx, f})
	if err := errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("look for damaged files in the cache: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)) == digest, nil
}

// stoppable is a reader that fails when its context ends.
type stoppable struct {
	ctx context.Context //nolint:containedctx // lives as long as one copy, which it cancels
	io.Reader
}

func (r stoppable) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
