package registry

import (
	"context"
	"errors"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// Resolve returns the digest of the manifest for linux/arch, or of the index itself when arch is empty. It
// pulls only manifests. It assumes that a single image has the right architecture; Base checks that. Errors
// are those of Base.
func (c *Client) Resolve(ctx context.Context, ref, arch string) (v1.Hash, error) {
	if local, ok := oci.ParseLocal(ref); ok {
		return local.ManifestDigest(ctx, c.opts.Store, arch)
	}
	p, err := c.newPull("resolve", ref)
	if err != nil {
		return v1.Hash{}, err
	}
	m, err := p.manifest(ctx, arch)
	return m.Digest, err
}

func (p *pull) manifest(ctx context.Context, arch string) (oci.Manifest, error) {
	top, err := p.Top(ctx)
	if err != nil {
		return oci.Manifest{}, err
	}
	return oci.ChooseManifest(p.ref.text, arch, top, func(d v1.Descriptor) (oci.Manifest, error) { return p.byDigest(ctx, d.Digest) })
}

// top returns the manifest that the reference names: from the store if it is there, else from the network.
func (p *pull) Top(ctx context.Context) (oci.Manifest, error) {
	if p.ref.digest != (v1.Hash{}) {
		return p.byDigest(ctx, p.ref.digest)
	}
	if p.opts.Offline {
		h, ok := p.recallTag(p.ref)
		if !ok {
			return oci.Manifest{}, p.offline()
		}
		return p.byDigest(ctx, h)
	}
	var got oci.Manifest
	err := p.tryEndpoints(ctx, func(s *transport.Session, attempts int) error {
		return p.pool.Try(ctx, attempts, p.limits.request, func(ctx context.Context) (err error) {
			got, err = p.resolveTag(ctx, s, p.ref.tag)
			return err
		})
	})
	if err != nil {
		return oci.Manifest{}, err
	}
	return got, p.rememberTag(p.ref, got.Digest)
}

// resolveTag requests the digest first: registries count fetched manifests against a limit, and the store
// mostly has the manifest.
func (p *pull) resolveTag(ctx context.Context, s *transport.Session, tag string) (oci.Manifest, error) {
	h, err := s.HeadManifest(ctx, tag)
	if err != nil {
		return oci.Manifest{}, err
	}
	if h == (v1.Hash{}) { // the registry does not state the digest
		return p.fetchManifest(ctx, s, tag, v1.Hash{})
	}
	if got, ok := p.cached(h); ok {
		return got, nil
	}
	return p.fetchManifest(ctx, s, h.String(), h)
}

// byDigest returns a manifest by its digest.
func (p *pull) byDigest(ctx context.Context, h v1.Hash) (oci.Manifest, error) {
	if got, ok := p.cached(h); ok {
		return got, nil
	}
	if p.opts.Offline {
		return oci.Manifest{}, p.offline()
	}
	var got oci.Manifest
	err := p.tryEndpoints(ctx, func(s *transport.Session, attempts int) error {
		return p.pool.Try(ctx, attempts, p.limits.request, func(ctx context.Context) (err error) {
			got, err = p.fetchManifest(ctx, s, h.String(), h)
			return err
		})
	})
	return got, err
}

func (p *pull) offline() error {
	return fmt.Errorf("%s %s: %w; run it once with network access, with the same cache", p.op, p.ref.text, fetch.ErrOffline)
}

// cached reads a manifest from the store. It removes a damaged one, so that the next copy replaces it.
func (p *pull) cached(h v1.Hash) (oci.Manifest, bool) {
	raw, err := oci.StoreBlobs(p.opts.Store).Document(h, oci.MaxManifest)
	if _, ok := errors.AsType[*fetch.MismatchError](err); ok {
		_ = os.Remove(p.opts.Store.Path(h.Hex)) // if that fails, the digest is checked again next time
	}
	return oci.Manifest{Raw: raw, Digest: h}, err == nil
}

// fetchManifest downloads a manifest and keeps it in the store.
func (p *pull) fetchManifest(ctx context.Context, s *transport.Session, identifier string, want v1.Hash) (oci.Manifest, error) {
	m, err := s.Manifest(ctx, identifier, want)
	if err != nil {
		return oci.Manifest{}, err
	}
	if err := oci.StoreDocument(p.opts.Store, m.Raw); err != nil {
		return oci.Manifest{}, transport.Final(err)
	}
	return m, nil
}
