package buildkit

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
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
}

func newRoot(arch string, layers []v1.Layer) (*root, error) {
	r := &root{
		platform: ocispecs.Platform{OS: "linux", Architecture: arch}, small: map[digest.Digest][]byte{}, layers: map[digest.Digest]v1.Layer{},
	}
	var adds []mutate.Addendum
	for i, l := range layers {
		mt, err := ociType(l)
		if err != nil {
			return nil, fmt.Errorf("layer %d of %d of the root: %w", i+1, len(layers), err)
		}
		sum, err := l.Digest()
		if err != nil {
			return nil, err
		}
		adds = append(adds, mutate.Addendum{Layer: l, MediaType: mt})
		r.layers[digest.Digest(sum.String())] = l
	}
	img, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		&v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	if img, err = mutate.Append(img, adds...); err != nil {
		return nil, err
	}
	for _, part := range []func() ([]byte, error){img.RawConfigFile, img.RawManifest} {
		b, err := part()
		if err != nil {
			return nil, err
		}
		r.manifest = digest.FromBytes(b)
		r.small[r.manifest] = b
	}
	return r, nil
}

// ociType returns the OCI name of a layer's format: our manifests have no Docker media types, whatever made
// the layer.
func ociType(l v1.Layer) (types.MediaType, error) {
	mt, err := l.MediaType()
	switch {
	case err != nil:
		return "", err
	case mt == types.OCIUncompressedLayer || mt == types.OCIUncompressedRestrictedLayer || mt == types.DockerUncompressedLayer:
		return types.OCIUncompressedLayer, nil
	case mt == types.OCILayer || mt == types.OCIRestrictedLayer || mt == types.DockerLayer || mt == types.DockerForeignLayer:
		return types.OCILayer, nil
	case mt == types.OCILayerZStd:
		return mt, nil
	}
	return "", fmt.Errorf("BuildKit does not know its format %s", mt)
}
