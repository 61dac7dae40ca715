package registry

import (
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/oci"
)

// Part says how much of an image Open reads.
type Part int

// The parts of an image, each with those before it.
const (
	// and the config of an image that is in no index, because only the config names the
	// architecture
	Manifest Part = iota
	Config        // each layer is downloaded when it is opened, while ctx lasts
	Layers
)

// OpenOptions say what Open reads.
type OpenOptions struct {
	// choose the image for linux/ARCH of an index; "": the artifact as it is, of which only
	// manifests are read
	Arch   string
	Part   Part // with Arch
	Origin bool // ask the artifact's own registry: its mirrors may be outdated
}

// Opened is what a reference names.
type Opened struct {
	Name   string  // full repository:tag, without a digest; the path for local sources
	Top    v1.Hash // of what the reference names, which may be an index
	Digest v1.Hash // of the manifest for the architecture, or Top

	// without Arch. Manifests are read when they are needed, a blob is downloaded when it is
	// opened; both need ctx
	Artifact oci.Artifact
	Image    v1.Image     // from Config on
	Manifest *v1.Manifest // with Arch, of an image in a registry
}

// Open reads an artifact from a registry (REF with a tag, a digest or both; with both the digest
// counts) or from this machine (oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:TAG]).
// Errors: *Error, which is fs.ErrNotExist if there is no such artifact; *oci.PlatformError if there
// is one, but not for the architecture; *fetch.MismatchError; fetch.ErrOffline.
func (c *Client) Open(ctx context.Context, ref string, o OpenOptions) (*Opened, error) {
	if local, ok := oci.ParseLocal(ref); ok {
		return openLocal(ctx, local, o)
	}
	p, err := c.newPull("pull", ref, o)
	if err != nil {
		return nil, err
	}
	top, err := p.top(ctx)
	if err != nil {
		return nil, err
	}
	opened := &Opened{Name: p.ref.canonical(), Top: oci.HashOf(top)}
	if o.Arch == "" {
		opened.Digest = opened.Top
		opened.Artifact, err = oci.NewArtifact(top, p.blobs(ctx))
		if err != nil {
			return nil, p.fail(err)
		}
		return opened, nil
	}
	raw, err := oci.ChooseManifest(
		ref,
		o.Arch,
		top,
		func(d v1.Descriptor) ([]byte, error) { return p.byDigest(ctx, d.Digest) },
	)
	if err != nil {
		return nil, err
	}
	opened.Digest = oci.HashOf(raw)
	opened.Manifest, err = oci.ParseManifest(raw)
	if err != nil {
		return nil, p.fail(err)
	}
	if o.Part >= Config || opened.Digest == opened.Top {
		err = p.image(ctx, raw, o, opened)
	}
	return opened, err
}

// image reads the config of an image, and the layers if they are wanted.
func (p *pull) image(ctx context.Context, raw []byte, o OpenOptions, opened *Opened) error {
	config := opened.Manifest.Config
	if config.Size > oci.MaxConfig {
		return p.fail(fmt.Errorf("its config is larger than %d bytes", oci.MaxConfig))
	}
	p.names = map[v1.Hash]string{config.Digest: "config"}
	if err := p.blob(ctx, config); err != nil {
		return err
	}
	blobs := p.blobs(ctx)
	if o.Part == Layers {
		blobs = oci.StoreBlobs(p.opts.Store)
	}
	img, err := oci.NewImage(raw, blobs)
	if err != nil {
		return p.fail(err)
	}
	p.names = oci.LayerNames(img)
	opened.Image = img
	if err := oci.CheckPlatform(p.ref.text, o.Arch, img); err != nil {
		return err
	}
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.SetLimit(p.opts.Jobs)
	for _, d := range opened.Manifest.Layers {
		p.origins.Store(d.Digest, p.ref.repo.Name())
		if o.Part == Layers {
			jobs.Go(func() error { return p.blob(ctx, d) })
		}
	}
	return jobs.Wait()
}

// blobs is the content of the repository, by way of the store.
func (p *pull) blobs(ctx context.Context) oci.Blobs {
	manifest := func(h v1.Hash) ([]byte, error) { return p.byDigest(ctx, h) }
	return oci.RemoteBlobs(
		p.ref.repo.Name(),
		manifest,
		func(d v1.Descriptor) (io.ReadCloser, error) {
			if err := p.blob(ctx, d); err != nil {
				return nil, err
			}
			return p.opts.Store.Open(d.Digest.Hex)
		},
	)
}

// openLocal reads an artifact on this machine, where it is.
func openLocal(ctx context.Context, local oci.LocalRef, o OpenOptions) (*Opened, error) {
	if o.Arch != "" {
		img, digest, err := local.Image(ctx, o.Arch)
		if err != nil {
			return nil, err
		}
		return &Opened{Name: local.Path, Image: img, Digest: digest}, nil
	}
	artifact, err := local.Artifact(ctx)
	if err != nil {
		return nil, err
	}
	digest, err := artifact.Digest()
	return &Opened{Name: local.Path, Artifact: artifact, Digest: digest, Top: digest}, err
}

// Fetch downloads a blob of a repository into the store.
func (c *Client) Fetch(ctx context.Context, repository string, d v1.Descriptor) error {
	p, err := c.newPull("pull", repository+"@"+d.Digest.String(), OpenOptions{})
	if err != nil {
		return err
	}
	return p.blob(ctx, d)
}
