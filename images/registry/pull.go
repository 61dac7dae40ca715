package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

// acceptable lists the types of manifest that are read, for the Accept header.
var acceptable = strings.Join([]string{
	string(
		types.OCIImageIndex,
	), string(types.DockerManifestList), string(types.OCIManifestSchema1), string(types.DockerManifestSchema2),
}, ", ")

// tagRecord is the kind of the cache's records of the digests that tags had last. They are used
// only offline.
const tagRecord = "tag"

// pull is the state of one pull of one artifact.
type pull struct {
	*Client
	op    string
	ref   reference
	names map[v1.Hash]string // of blobs, for people

	order     sync.Mutex
	endpoints []endpoint // the one that delivered last is first
}

func (c *Client) newPull(op, text string, o OpenOptions) (*pull, error) {
	r, err := parseReference(text)
	if err != nil {
		return nil, err
	}
	p := &pull{Client: c, op: op, ref: r, endpoints: c.endpoints(r.repo)}
	if o.Origin {
		p.endpoints = p.endpoints[len(p.endpoints)-1:]
	}
	return p, nil
}

// fail adds what was attempted to an error that is not of a registry.
func (p *pull) fail(err error) error { return fmt.Errorf("%s %s: %w", p.op, p.ref.text, err) }

func (p *pull) offline() error {
	return p.fail(
		fmt.Errorf("%w; run it once with network access, with the same cache", fetch.ErrOffline),
	)
}

// tryEndpoints calls f for one endpoint after the other until one succeeds, which is the first from
// then on.
func (p *pull) tryEndpoints(ctx context.Context, f func(s *session) error) error {
	p.order.Lock()
	endpoints := slices.Clone(p.endpoints)
	p.order.Unlock()
	var missed error
	for n, e := range endpoints {
		err := f(p.session(e, transport.PullScope))
		if err != nil {
			err = wrapped(ctx, p.op, p.ref.text, e.repo.RegistryStr(), err)
			var remote *Error
			var mismatch *fetch.MismatchError
			if ctx.Err() != nil || !errors.As(err, &remote) && !errors.As(err, &mismatch) {
				return err
			}
			if missed != nil {
				err = fmt.Errorf("%w (tried before: %w)", err, missed)
			}
			missed = err
			continue
		}
		if n > 0 {
			p.order.Lock()
			p.endpoints = slices.Insert(slices.Delete(endpoints, n, n+1), 0, e)
			p.order.Unlock()
		}
		return nil
	}
	return missed
}

// top returns the manifest that the reference names: from the store if it is there, else from the
// network.
func (p *pull) top(ctx context.Context) (got []byte, err error) {
	if p.ref.digest != (v1.Hash{}) {
		return p.byDigest(ctx, p.ref.digest)
	}
	var known v1.Hash
	// one that cannot be read counts as missing
	_, ok := p.opts.Store.Lookup(tagRecord, p.ref.canonical(), &known)
	if p.opts.Offline {
		if !ok {
			return nil, p.offline()
		}
		return p.byDigest(ctx, known)
	}
	err = p.tryEndpoints(ctx, func(s *session) error {
		// The digest first: registries count fetched manifests against a limit, and the store
		// mostly has the manifest.
		h, err := s.headManifest(ctx, p.ref.tag)
		if err != nil {
			return err
		}
		cached, ok := p.cached(h)
		if ok {
			got = cached
			return nil
		}
		got, err = p.download(ctx, s, p.ref.tag, h)
		return err
	})
	if err != nil {
		return nil, err
	}
	h := oci.HashOf(got)
	if h == known {
		return got, nil
	}
	return got, p.opts.Store.Note(tagRecord, p.ref.canonical(), "", h)
}

// byDigest returns a manifest by its digest.
func (p *pull) byDigest(ctx context.Context, h v1.Hash) ([]byte, error) {
	got, ok := p.cached(h)
	if ok {
		return got, nil
	}
	if p.opts.Offline {
		return got, p.offline()
	}
	err := p.tryEndpoints(ctx, func(s *session) (err error) {
		got, err = p.download(ctx, s, "", h)
		return err
	})
	return got, err
}

// cached reads a manifest from the store. It removes a damaged one, so that the next copy replaces
// it.
func (p *pull) cached(h v1.Hash) (raw []byte, ok bool) {
	raw, err := oci.StoreBlobs(p.opts.Store).Document(h, oci.MaxManifest)
	_, damaged := errors.AsType[*fetch.MismatchError](err)
	if damaged {
		// if that fails, the digest is checked again next time
		_ = os.Remove(p.opts.Store.Path(h.Hex))
	}
	return raw, raw != nil
}

// download downloads a manifest by its digest, or by a tag if the digest is zero, and keeps it in
// the store.
func (p *pull) download(ctx context.Context, s *session, tag string, h v1.Hash) ([]byte, error) {
	if h != (v1.Hash{}) {
		tag = h.String()
	}
	raw, err := s.manifest(ctx, tag, h)
	if err != nil {
		return nil, err
	}
	_, err = p.opts.Store.Put(raw)
	return raw, err
}

// headManifest asks for the digest of a tag. It is zero when the registry does not state it.
func (s *session) headManifest(ctx context.Context, identifier string) (h v1.Hash, err error) {
	got, err := s.send(ctx, request{
		method: http.MethodHead, to: s.url("manifests", identifier), accept: acceptable,
	})
	if statusOf(err) == http.StatusMethodNotAllowed {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	h, err = v1.NewHash(got.Header.Get("Docker-Content-Digest"))
	if err != nil || h.Algorithm != "sha256" {
		return v1.Hash{}, nil //nolint:nilerr // the header is optional
	}
	return h, nil
}

// manifest downloads a manifest, of at most oci.MaxManifest bytes, and verifies it against want
// unless that is zero.
func (s *session) manifest(ctx context.Context, identifier string, want v1.Hash) ([]byte, error) {
	from := s.url("manifests", identifier)
	got, err := s.get(ctx, from, acceptable)
	if err != nil {
		return nil, err
	}
	if len(got.body) > oci.MaxManifest {
		return nil, fmt.Errorf("it sent a document of more than %d bytes", oci.MaxManifest)
	}
	h := oci.HashOf(got.body)
	if want != (v1.Hash{}) && h != want {
		return nil, &fetch.MismatchError{
			URL: from, Want: want.Hex, Got: h.Hex, GotSize: int64(len(got.body)),
		}
	}
	return got.body, nil
}

// tagged reads the manifest under a tag; without one it is nil.
func (s *session) tagged(ctx context.Context, tag string) ([]byte, error) {
	raw, err := s.manifest(ctx, tag, v1.Hash{})
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, &itemError{"tag " + tag, err}
	}
	return raw, nil
}

// config downloads a blob into memory and verifies it.
func (s *session) config(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	return oci.ReadBlob(oci.Blob{Desc: d, Open: func() (io.ReadCloser, error) {
		got, err := s.get(ctx, s.url("blobs", d.Digest.String()), "")
		return io.NopCloser(bytes.NewReader(got.body)), err
	}}, oci.MaxConfig)
}

// blob downloads a blob into the store. Package fetch verifies, resumes, and coordinates with other
// processes.
func (p *pull) blob(ctx context.Context, d v1.Descriptor) error {
	p.origins.Store(d.Digest, p.ref.repo.Name())
	report := func(current int64, s State) {
		p.report(Event{
			Op:      p.op,
			Ref:     p.ref.text,
			Name:    d.Digest.String(),
			Called:  p.names[d.Digest],
			Current: current,
			Total:   d.Size,
			State:   s,
		})
	}
	if p.opts.Store.Has(d.Digest.Hex) {
		report(d.Size, Exists)
		return nil
	}
	if p.opts.Offline {
		return p.offline()
	}
	err := p.tryEndpoints(ctx, func(s *session) error {
		get := fetch.Client{
			Store:    p.opts.Store,
			HTTP:     &http.Client{Transport: s},
			Attempts: s.attempts,
			Backoff:  p.opts.Backoff,
		}
		file := fetch.File{
			URL:    s.url("blobs", d.Digest.String()),
			SHA256: d.Digest.Hex,
			Size:   d.Size,
		}
		_, _, err := get.Get(ctx, file, func(done, _ int64) { report(done, Running) })
		return err
	})
	if err != nil {
		return err
	}
	report(d.Size, Done)
	return nil
}
