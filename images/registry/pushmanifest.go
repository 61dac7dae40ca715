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

// pushParts sends what a manifest names: blobs, and then documents.
func (p *push) pushParts(ctx context.Context, blobs []oci.Blob, documents []oci.Document) error {
	jobs, jctx := errgroup.WithContext(ctx)
	jobs.SetLimit(p.opts.Jobs)
	for _, b := range blobs {
		jobs.Go(func() error { return p.blob(jctx, b) })
	}
	if err := jobs.Wait(); err != nil {
		return err
	}
	for _, d := range documents {
		if _, err := p.put(ctx, d.Desc.Digest.String(), d); err != nil {
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

// unchanged reports the events that nothing had to be sent.
func (p *push) unchanged(blobs []oci.Blob, top oci.Document, names []string) {
	for _, b := range blobs {
		p.count(b, Exists)
	}
	for _, name := range names {
		p.reportState("manifest "+name, "", top.Desc.Size, Exists)
	}
}

func (p *push) reportState(name, called string, size int64, s State) {
	p.report(Event{Op: "push", Ref: p.ref.text, Name: name, Called: called, Current: size, Total: size, State: s})
}

func (p *push) count(b oci.Blob, s State) {
	p.reportState(b.Desc.Digest.String(), b.Name, b.Desc.Size, s)
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

// put puts a manifest under a name, and checks that the registry stored it with the right digest. It returns
// the header of the answer.
func (p *push) put(ctx context.Context, name string, d oci.Document) (header http.Header, err error) {
	err = p.pool.Try(ctx, p.opts.Attempts, p.limits.commit, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.s.URL("manifests", name), bytes.NewReader(d.Raw))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", string(d.Desc.MediaType))
		resp, err := p.s.HTTP.Do(req)
		if err != nil {
			return err
		}
		header = resp.Header
		err = transport.Check(resp, http.StatusCreated, http.StatusOK, http.StatusAccepted)
		got := resp.Header.Get("Docker-Content-Digest")
		if err == nil && got != "" && got != d.Desc.Digest.String() {
			err = transport.Final(fmt.Errorf("it stored manifest %s as %s", d.Desc.Digest, transport.Clean(got)))
		}
		return errors.Join(err, resp.Body.Close())
	})
	if err != nil {
		return nil, &itemError{"manifest " + name, err}
	}
	p.reportState("manifest "+name, "", d.Desc.Size, Done)
	return header, nil
}
