package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// pushContent sends everything except the tags.
func (p *push) pushContent(ctx context.Context, all *oci.Content) error {
	jobs, jctx := errgroup.WithContext(ctx)
	jobs.SetLimit(p.opts.Jobs)
	for _, b := range all.Blobs {
		jobs.Go(func() error { return p.blob(jctx, b) })
	}
	if err := jobs.Wait(); err != nil {
		return err
	}
	for _, d := range all.Documents[:len(all.Documents)-1] {
		if err := p.Document(ctx, d.Desc.Digest.String(), d); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the names that do not yet lead to the artifact.
func (p *push) missing(ctx context.Context, top oci.Document, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		exists, err := p.hasDocument(ctx, name, top)
		if err != nil {
			return nil, err
		}
		if !exists {
			out = append(out, name)
		}
	}
	return out, nil
}

// hasDocument reports whether the registry has the document under that name.
func (p *push) hasDocument(ctx context.Context, name string, d oci.Document) (bool, error) {
	var got v1.Hash
	err := p.pool.Try(ctx, p.opts.Attempts, p.limits.request, func(ctx context.Context) (err error) {
		got, err = p.s.HeadManifest(ctx, name)
		return err
	})
	if code := transport.Status(err); code == http.StatusNotFound {
		return false, nil
	}
	return got == d.Desc.Digest, err
}

// unchanged reports the event that nothing had to be sent.
func (p *push) unchanged(all *oci.Content, names []string) {
	for _, b := range all.Blobs {
		p.count(b, Exists)
	}
	for _, name := range names {
		p.reportState("manifest "+name, all.Top().Desc.Size, Exists)
	}
}

func (p *push) reportState(name string, size int64, s State) {
	p.report(Event{Op: "push", Ref: p.ref.text, Name: name, Current: size, Total: size, State: s})
}

func (p *push) count(b oci.Blob, s State) {
	p.reportState(b.Desc.Digest.String(), b.Desc.Size, s)
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
func (p *push) Document(ctx context.Context, name string, d oci.Document) error {
	err := p.pool.Try(ctx, p.opts.Attempts, p.limits.commit, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.s.URL("manifests", name), bytes.NewReader(d.Raw))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", string(d.Desc.MediaType))
		resp, err := p.s.HTTP.Do(req)
		if err != nil {
			return err
		}
		err = transport.Check(resp, http.StatusCreated, http.StatusOK, http.StatusAccepted)
		got := resp.Header.Get("Docker-Content-Digest")
		if err == nil && got != "" && got != d.Desc.Digest.String() {
			err = transport.Final(fmt.Errorf("it stored manifest %s as %s", d.Desc.Digest, transport.Clean(got)))
		}
		return errors.Join(err, resp.Body.Close())
	})
	if err != nil {
		return &itemError{"manifest " + name, err}
	}
	p.reportState("manifest "+name, d.Desc.Size, Done)
	return nil
}
