package registry

import (
	"bytes"
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
)

// Description is the content of an image's manifest that identifies the image, without its layers.
type Description struct {
	Digest      v1.Hash           // of the manifest for the architecture
	Tag         v1.Hash           // of what the reference names: the same manifest, or an index of several architectures
	Size        int64             // compressed bytes of all layers
	Annotations map[string]string // may be nil
}

// Describe reads the manifest for linux/arch of an image from its own registry; it does not ask mirrors,
// which may be outdated. It pulls only manifests, and the config of an image that is in no index, because
// only the config names the architecture. If the image does not exist, the error is fs.ErrNotExist; if it
// exists only for other architectures, it is a *PlatformError. Other errors are those of Base.
func (c *Client) Describe(ctx context.Context, ref, arch string) (Description, error) {
	p, err := c.newPull("look at", ref)
	if err != nil {
		return Description{}, err
	}
	p.endpoints = p.endpoints[len(p.endpoints)-1:]
	top, err := p.Top(ctx)
	if err != nil {
		return Description{}, err
	}
	m, err := oci.ChooseManifest(ref, arch, top, func(d v1.Descriptor) (oci.Manifest, error) { return p.byDigest(ctx, d.Digest) })
	if err != nil {
		return Description{}, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(m.Raw))
	if err != nil {
		return Description{}, fmt.Errorf("look at %s: the image manifest is malformed: %w", ref, err)
	}
	if m.Digest == top.Digest {
		if _, err := p.configured(ctx, arch, m, manifest.Config, oci.StoreBlobs(c.opts.Store)); err != nil {
			return Description{}, err
		}
	}
	d := Description{Digest: m.Digest, Tag: top.Digest, Annotations: manifest.Annotations}
	for _, l := range manifest.Layers {
		d.Size += l.Size
	}
	return d, nil
}
