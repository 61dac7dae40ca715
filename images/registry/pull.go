package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/oci/layername"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// Base is an image to build upon. All of its content is on this machine.
type Base struct {
	Image  v1.Image
	Name   string  // full repository:tag, without a digest; the path for local sources
	Digest v1.Hash // of the manifest for the architecture
}

// pull is the state of one pull of one image.
type pull struct {
	*Client
	op    string
	ref   reference
	names map[v1.Hash]string // of blobs, for people

	order     sync.Mutex
	endpoints []transport.Endpoint // the one that delivered last is first
}

func (c *Client) newPull(op, text string) (*pull, error) {
	r, err := parseReference(text, c.opts.Insecure)
	if err != nil {
		return nil, err
	}
	return &pull{Client: c, op: op, ref: r, endpoints: c.endpoints(r.repo)}, nil
}

// tryEndpoints calls f for one endpoint after the other until one succeeds. Every endpoint except the last
// gets only two attempts, because there is another one to ask.
func (p *pull) tryEndpoints(ctx context.Context, f func(s *transport.Session, attempts int) error) error {
	p.order.Lock()
	endpoints := slices.Clone(p.endpoints)
	p.order.Unlock()
	var missed error
	for n, e := range endpoints {
		attempts := p.opts.Attempts
		if n < len(endpoints)-1 {
			attempts = min(attempts, 2)
		}
		s, err := p.pool.Session(ctx, e, attempts, transport.Pull)
		if err == nil {
			err = f(s, attempts)
		}
		if err == nil {
			p.moveToFront(e)
			return nil
		}
		err = wrapped(ctx, p.op, p.ref.text, e.Repo.RegistryStr(), err)
		var remote *Error
		var mismatch *fetch.MismatchError
		if ctx.Err() != nil || !errors.As(err, &remote) && !errors.As(err, &mismatch) {
			return err
		}
		if missed != nil {
			err = fmt.Errorf("%w (tried before: %w)", err, missed)
		}
		missed = err
	}
	return missed
}

// moveToFront moves an endpoint to the front.
func (p *pull) moveToFront(e transport.Endpoint) {
	p.order.Lock()
	defer p.order.Unlock()
	if n := slices.Index(p.endpoints, e); n > 0 {
		p.endpoints = slices.Insert(slices.Delete(p.endpoints, n, n+1), 0, e)
	}
}

// Base returns an image for linux/arch from a registry (REF with a tag, a digest or both; with both the
// digest counts) or from this machine (oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:TAG]).
// When it returns, all layers are on this machine. Errors: *Error, *PlatformError, *fetch.MismatchError,
// fetch.ErrOffline.
func (c *Client) Base(ctx context.Context, ref, arch string) (*Base, error) {
	if local, ok := oci.ParseLocal(ref); ok {
		img, digest, err := local.Image(ctx, c.opts.Store, arch)
		if err != nil {
			return nil, err
		}
		return &Base{Image: img, Name: local.Path, Digest: digest}, nil
	}
	p, err := c.newPull("pull", ref)
	if err != nil {
		return nil, err
	}
	base, manifest, err := p.image(ctx, arch, oci.StoreBlobs(c.opts.Store))
	if err != nil {
		return nil, err
	}
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.SetLimit(c.opts.Jobs)
	seen := map[v1.Hash]bool{}
	for _, d := range manifest.Layers {
		if seen[d.Digest] {
			continue
		}
		seen[d.Digest] = true
		jobs.Go(func() error { return p.blob(ctx, d) })
	}
	if err := jobs.Wait(); err != nil {
		return nil, err
	}
	return base, nil
}

// Look is Base without layers, which have digests and sizes, but need not be readable.
func (c *Client) Look(ctx context.Context, ref, arch string) (*Base, error) {
	if local, ok := oci.ParseLocal(ref); ok {
		img, digest, err := local.Look(ctx, c.opts.Store, arch)
		if err != nil {
			return nil, err
		}
		return &Base{Image: img, Name: local.Path, Digest: digest}, nil
	}
	return c.Lazy(ctx, ref, arch)
}

// Lazy is Base without the layers. Each is downloaded when it is opened; that needs ctx.
func (c *Client) Lazy(ctx context.Context, ref, arch string) (*Base, error) {
	if oci.IsLocal(ref) {
		return c.Base(ctx, ref, arch)
	}
	p, err := c.newPull("pull", ref)
	if err != nil {
		return nil, err
	}
	base, manifest, err := p.image(ctx, arch, p.blobs(ctx))
	if err != nil {
		return nil, err
	}
	for _, d := range manifest.Layers {
		c.recordMountSource(d.Digest, p.ref.repo.Name())
	}
	return base, nil
}

// Fetch downloads a blob of a repository into the store.
func (c *Client) Fetch(ctx context.Context, repository string, d v1.Descriptor) error {
	p, err := c.newPull("pull", repository+"@"+d.Digest.String())
	if err != nil {
		return err
	}
	return p.blob(ctx, d)
}

// image reads manifest and config of an image whose layers are in blobs.
func (p *pull) image(ctx context.Context, arch string, blobs oci.Blobs) (*Base, *v1.Manifest, error) {
	m, err := p.manifest(ctx, arch)
	if err != nil {
		return nil, nil, err
	}
	manifest, err := oci.ParseManifest(m.Raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", p.op, p.ref.text, err)
	}
	img, err := p.configured(ctx, arch, m, manifest.Config, blobs)
	return &Base{Image: img, Name: p.ref.canonical(), Digest: m.Digest}, manifest, err
}

// configured reads the config of an image for linux/arch.
func (p *pull) configured(ctx context.Context, arch string, m oci.Manifest, config v1.Descriptor, blobs oci.Blobs) (*oci.Image, error) {
	if config.Size > oci.MaxConfig {
		return nil, fmt.Errorf("%s %s: its config is larger than %d bytes", p.op, p.ref.text, oci.MaxConfig)
	}
	p.names = map[v1.Hash]string{config.Digest: "config"}
	if err := p.blob(ctx, config); err != nil {
		return nil, err
	}
	img, err := oci.NewImage(m.Raw, blobs)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", p.op, p.ref.text, err)
	}
	p.names = layername.Of(img)
	return img, oci.CheckPlatform(p.ref.text, arch, img)
}

// blob downloads a blob into the store. Package fetch verifies, resumes, and coordinates with other
// processes.
func (p *pull) blob(ctx context.Context, d v1.Descriptor) error {
	p.recordMountSource(d.Digest, p.ref.repo.Name())
	event := Event{Op: p.op, Ref: p.ref.text, Name: d.Digest.String(), Called: p.names[d.Digest], Total: d.Size}
	if f, err := p.opts.Store.Open(d.Digest.Hex); err == nil {
		fi, err := f.Stat()
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("pull %s: %w", p.ref.text, err)
		}
		if fi.Size() == d.Size {
			event.Current, event.State = d.Size, Exists
			p.report(event)
			return nil
		}
	}
	if p.opts.Offline {
		return p.offline()
	}
	err := p.tryEndpoints(ctx, func(s *transport.Session, attempts int) error {
		get := fetch.Client{Store: p.opts.Store, HTTP: s.HTTP, Attempts: attempts, Backoff: p.opts.Backoff}
		file := fetch.File{URL: s.URL("blobs", d.Digest.String()), SHA256: d.Digest.Hex, Size: d.Size}
		_, _, err := get.Get(ctx, file, func(done, _ int64) {
			event.Current = done
			p.report(event)
		})
		return err
	})
	if err == nil {
		event.Current, event.State = d.Size, Done
		p.report(event)
	}
	return err
}
