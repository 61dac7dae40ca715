package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
)

// content sends everything except the tags.
func (p *push) content(ctx context.Context, all *content) error {
	jobs, jctx := errgroup.WithContext(ctx)
	jobs.SetLimit(p.opts.Jobs)
	for _, b := range all.blobs {
		jobs.Go(func() error { return p.blob(jctx, b) })
	}
	if err := jobs.Wait(); err != nil {
		return err
	}
	for _, d := range all.documents[:len(all.documents)-1] {
		if err := p.document(ctx, d.desc.Digest.String(), d); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the names that do not yet lead to the artifact.
func (p *push) missing(ctx context.Context, top document, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		there, err := p.there(ctx, name, top)
		if err != nil {
			return nil, err
		}
		if !there {
			out = append(out, name)
		}
	}
	return out, nil
}

// there reports whether the registry has the document under that name.
func (p *push) there(ctx context.Context, name string, d document) (bool, error) {
	var got v1.Hash
	err := p.try(ctx, p.opts.Attempts, p.limits.request, func(ctx context.Context) (err error) {
		got, err = p.s.headManifest(ctx, name)
		return err
	})
	if code := status(err); code == http.StatusNotFound {
		return false, nil
	}
	return got == d.desc.Digest, err
}

// unchanged reports the event that nothing had to be sent.
func (p *push) unchanged(all *content, names []string) {
	for _, b := range all.blobs {
		p.count(b, Exists)
	}
	for _, name := range names {
		p.told("manifest "+name, all.top().desc.Size, Exists)
	}
}

func (p *push) told(name string, size int64, s State) {
	p.report(Event{Op: "push", Ref: p.ref.text, Name: name, Current: size, Total: size, State: s})
}

func (p *push) count(b blob, s State) {
	p.told(b.desc.Digest.String(), b.desc.Size, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case Exists:
		p.stats.Existing++
	case Mounted:
		p.stats.Mounted++
	case Done:
		p.stats.Uploaded++
	case Running:
	}
}

// document puts a manifest under a name, and checks that the registry stored it with the right digest.
func (p *push) document(ctx context.Context, name string, d document) error {
	err := p.try(ctx, p.opts.Attempts, p.limits.commit, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.s.url("manifests", name), bytes.NewReader(d.raw))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", string(d.desc.MediaType))
		resp, err := p.s.http.Do(req)
		if err != nil {
			return err
		}
		err = check(resp, http.StatusCreated, http.StatusOK, http.StatusAccepted)
		got := resp.Header.Get("Docker-Content-Digest")
		if err == nil && got != "" && got != d.desc.Digest.String() {
			err = &finalError{fmt.Errorf("it stored manifest %s as %s", d.desc.Digest, clean(got))}
		}
		return errors.Join(err, resp.Body.Close())
	})
	if err != nil {
		return &itemError{"manifest " + name, err}
	}
	p.told("manifest "+name, d.desc.Size, Done)
	return nil
}
