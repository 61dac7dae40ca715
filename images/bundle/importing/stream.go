package importing

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/oci"
)

// Stream imports from a pipe, in one pass: blobs are pushed as they pass, each verified on the way, and
// nothing has a name before the end of the pipe was sound. Unlike Import it pushes blobs before all of the
// bundle is verified.
func Stream(ctx context.Context, s *reading.Stream, r Registry, o Options) (*Result, error) {
	fail := func(t *transfer, err error) (*Result, error) {
		return &t.result, fmt.Errorf("import into %s: %w", o.To, err)
	}
	t, err := begin(ctx, s.Bundle, r, o)
	if err != nil {
		return nil, fmt.Errorf("import into %s: %w", o.To, err)
	}
	absent := map[v1.Hash]bool{}
	for _, a := range s.List.Absent {
		absent[a.Digest] = true
	}
	for _, b := range s.List.Blobs {
		t.readable[b.Digest] = !absent[b.Digest]
	}
	if err := t.needs(ctx); err != nil {
		return fail(t, err)
	}
	users := t.users()
	for !o.DryRun {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = t.pass(ctx, b, users[b.Desc.Digest])
		}
		if err != nil {
			return fail(t, err)
		}
	}
	if err := t.unread(ctx, users); err != nil {
		return fail(t, err)
	}
	if err := t.finish(ctx); err != nil {
		return fail(t, err)
	}
	return &t.result, nil
}

// pass pushes a blob that passes, or reads over it. It comes once: only the first repository can get it by a
// transfer.
func (t *transfer) pass(ctx context.Context, b oci.Blob, repositories []string) error {
	opened := false
	r, err := b.Open()
	if err != nil {
		return err
	}
	once := oci.Blob{Desc: b.Desc, Open: func() (io.ReadCloser, error) {
		if opened {
			return nil, fmt.Errorf("%s has passed the pipe already: repeat the import, or import from a file", b.Desc.Digest)
		}
		opened = true
		return io.NopCloser(r), nil
	}}
	for _, repository := range repositories {
		if err := t.push(ctx, repository, once); err != nil {
			return err
		}
	}
	if opened {
		return nil
	}
	return fetch.Copy(ctx, io.Discard, oci.Verify(r, b.Desc, "the bundle"), nil)
}

// unread pushes what does not pass the pipe: the empty config, and blobs that another repository has.
func (t *transfer) unread(ctx context.Context, users map[v1.Hash][]string) error {
	empty := bundle.EmptyConfig()
	if t.DryRun {
		return nil
	}
	for _, repository := range users[empty.Desc.Digest] {
		if err := t.push(ctx, repository, empty); err != nil {
			return err
		}
	}
	for _, b := range t.bundle.List.Blobs {
		if t.has(b.Digest) || len(t.holders[b.Digest]) == 0 {
			continue
		}
		for _, repository := range users[b.Digest] {
			if err := t.push(ctx, repository, t.elsewhere(b)); err != nil {
				return err
			}
		}
	}
	return nil
}
