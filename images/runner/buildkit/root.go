package buildkit

import (
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// root is the root of a step in BuildKit's form: an image manifest and its config. They depend only on the
// layers' digests and the architecture, so that the same layers have the same digest everywhere and hit a
// daemon's cache.
type root struct {
	platform ocispecs.Platform
	manifest digest.Digest
	small    map[digest.Digest][]byte   // manifest and config
	layers   map[digest.Digest]v1.Layer // by the digest of the compressed bytes
	sizes    map[digest.Digest]int64    // of the layers, in bytes
}

func newRoot(arch string, layers []v1.Layer) (*root, error) {
	r := &root{
		platform: ocispecs.Platform{OS: "linux", Architecture: arch},
		small:    map[digest.Digest][]byte{},
		layers:   map[digest.Digest]v1.Layer{},
		sizes:    map[digest.Digest]int64{},
	}
	config := ocispecs.Image{Platform: r.platform, RootFS: ocispecs.RootFS{Type: "layers"}}
	manifest := ocispecs.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispecs.MediaTypeImageManifest}
	for i, l := range layers {
		desc, diff, err := describe(l)
		if err != nil {
			return nil, fmt.Errorf("layer %d of %d of the root: %w", i+1, len(layers), err)
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, diff)
		manifest.Layers = append(manifest.Layers, desc)
		r.layers[desc.Digest], r.sizes[desc.Digest] = l, desc.Size
	}
	var err error
	if manifest.Config, err = r.put(config, ocispecs.MediaTypeImageConfig); err != nil {
		return nil, err
	}
	top, err := r.put(manifest, ocispecs.MediaTypeImageManifest)
	if err != nil {
		return nil, err
	}
	r.manifest = top.Digest
	return r, nil
}

func (r *root) put(doc any, mediaType string) (ocispecs.Descriptor, error) {
	b, err := json.Marshal(doc)
	if err != nil {
		return ocispecs.Descriptor{}, err
	}
	d := ocispecs.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	r.small[d.Digest] = b
	return d, nil
}

func describe(l v1.Layer) (desc ocispecs.Descriptor, diff digest.Digest, err error) {
	sum, err := l.Digest()
	if err != nil {
		return desc, "", err
	}
	id, err := l.DiffID()
	if err != nil {
		return desc, "", err
	}
	size, err := l.Size()
	if err != nil {
		return desc, "", err
	}
	mt, err := l.MediaType()
	if err != nil {
		return desc, "", err
	}
	name, err := ociType(mt)
	if err != nil {
		return desc, "", fmt.Errorf("layer %s: %w", sum, err)
	}
	return ocispecs.Descriptor{MediaType: name, Digest: digest.Digest(sum.String()), Size: size}, digest.Digest(id.String()), nil
}

// ociType returns the OCI name of a layer's format: our manifests have no Docker media types, whatever made
// the layer.
func ociType(mt types.MediaType) (string, error) {
	switch mt {
	case types.OCIUncompressedLayer, types.OCIUncompressedRestrictedLayer, types.DockerUncompressedLayer:
		return ocispecs.MediaTypeImageLayer, nil
	case types.OCILayer, types.OCIRestrictedLayer, types.DockerLayer, types.DockerForeignLayer:
		return ocispecs.MediaTypeImageLayerGzip, nil
	case types.OCILayerZStd:
		return ocispecs.MediaTypeImageLayerZstd, nil
	}
	return "", fmt.Errorf("BuildKit does not know its format %s", mt)
}
