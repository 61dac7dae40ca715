package oci

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/strictjson"
)

// image is an image over blobs. Its documents are in memory and verified; each layer is verified
// while it is read.
type image struct {
	stored
	config   []byte
	manifest *v1.Manifest
	layers   []v1.Layer
}

// NewImage parses a verified manifest and reads its config.
func NewImage(raw []byte, b Blobs) (v1.Image, error) {
	return newImage(raw, b)
}

func newImage(raw []byte, b Blobs) (*image, error) {
	m, err := ParseManifest(raw)
	if err != nil {
		return nil, err
	}
	config, err := b.read(m.Config, MaxConfig)
	if err != nil {
		return nil, fmt.Errorf("read the image config: %w", err)
	}
	err = checkSize(m.Config, config)
	if err != nil {
		return nil, fmt.Errorf("read the image config: %w", err)
	}
	cf, err := strictjson.Decode[v1.ConfigFile](config)
	if err != nil {
		return nil, fmt.Errorf("the image config %s is malformed: %w", m.Config.Digest, err)
	}
	diffIDs := cf.RootFS.DiffIDs
	if len(diffIDs) != len(m.Layers) {
		return nil, malformed(
			"the image config %s lists %d layers, its manifest %d: not a container image",
			m.Config.Digest, len(diffIDs), len(m.Layers),
		)
	}
	own := document{MediaType: cmp.Or(m.MediaType, types.OCIManifestSchema1)}
	i := &image{stored: stored{raw, own, b}, config: config, manifest: m}
	for n, d := range m.Layers {
		i.layers = append(i.layers, &layer{d, diffIDs[n], b})
	}
	return i, nil
}

// OpenIndex returns the entries of the index that an artifact is, and what opens an image of them
// where the artifact is on this machine. open is nil for anything else than an index.
func OpenIndex(a Artifact) (
	entries []v1.Descriptor,
	open func(v1.Descriptor) (v1.Image, error),
	err error,
) {
	index, ok := a.(*stored)
	if !ok {
		return nil, nil, nil
	}
	doc, err := parse(index.raw)
	if err != nil || doc.Manifests == nil {
		return nil, nil, err
	}
	return *doc.Manifests, func(d v1.Descriptor) (v1.Image, error) {
		raw, err := index.blobs.Document(d.Digest, MaxManifest)
		if err != nil {
			return nil, err
		}
		err = checkSize(d, raw)
		if err != nil {
			return nil, err
		}
		return NewImage(raw, index.blobs)
	}, nil
}

func (i *image) Manifest() (*v1.Manifest, error)           { return i.manifest.DeepCopy(), nil }
func (i *image) ConfigName() (v1.Hash, error)              { return i.manifest.Config.Digest, nil }
func (i *image) RawConfigFile() ([]byte, error)            { return i.config, nil }
func (i *image) ConfigFile() (*v1.ConfigFile, error)       { return partial.ConfigFile(i) }
func (i *image) LayerByDiffID(h v1.Hash) (v1.Layer, error) { return i.find(h, v1.Layer.DiffID) }

func (i *image) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	if h == i.manifest.Config.Digest {
		return partial.ConfigLayer(i)
	}
	return i.find(h, v1.Layer.Digest)
}

func (i *image) find(h v1.Hash, of func(v1.Layer) (v1.Hash, error)) (v1.Layer, error) {
	for _, l := range i.layers {
		have, err := of(l)
		if err != nil || have == h {
			return l, err
		}
	}
	return nil, fmt.Errorf("the image has no layer %s", h)
}

func (i *image) Layers() ([]v1.Layer, error) { return slices.Clone(i.layers), nil }

// open returns a blob of the image. At the end of a layer it has compared what the layer unpacks
// to.
func (i *image) open(d v1.Descriptor) (io.ReadCloser, error) {
	r, err := i.blobs.open(d)
	if err != nil {
		return nil, err
	}
	l, err := i.find(d.Digest, v1.Layer.Digest)
	if err != nil {
		return r, nil //nolint:nilerr // the config
	}
	diffID, err := l.DiffID()
	return checkUnpacked(r, diffID), err
}

// layer is one layer of an image.
type layer struct {
	desc   v1.Descriptor
	diffID v1.Hash
	blobs  Blobs
}

func (l *layer) Digest() (v1.Hash, error)            { return l.desc.Digest, nil }
func (l *layer) DiffID() (v1.Hash, error)            { return l.diffID, nil }
func (l *layer) Size() (int64, error)                { return l.desc.Size, nil }
func (l *layer) MediaType() (types.MediaType, error) { return l.desc.MediaType, nil }
func (l *layer) Descriptor() (*v1.Descriptor, error) { return l.desc.DeepCopy(), nil }

func (l *layer) Compressed() (io.ReadCloser, error) {
	r, err := l.blobs.open(l.desc)
	if err != nil {
		return nil, fmt.Errorf("open layer %s in %s: %w", l.desc.Digest, l.blobs.where, err)
	}
	return Verify(r, l.desc, l.blobs.where), nil
}

func (l *layer) Uncompressed() (io.ReadCloser, error) {
	r, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	out, err := Decompress(r)
	if err != nil {
		return nil, fmt.Errorf("unpack layer %s: %w", l.desc.Digest, err)
	}
	return out, nil
}

// builtBy begins the history of layers that driver-build made: "driver-build VERSION: packages".
const builtBy = "driver-build "

// LayerNames returns what people call the layers and the config of an image, by digest: "packages",
// or "layer 1 of 7" if its history does not say. It is for messages; of an image that cannot be
// read it is empty.
func LayerNames(img v1.Image) map[v1.Hash]string {
	manifest, err := img.Manifest()
	if err != nil {
		return nil
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil
	}
	names := map[v1.Hash]string{manifest.Config.Digest: "config"}
	history := slices.DeleteFunc(config.History, func(h v1.History) bool { return h.EmptyLayer })
	for n, l := range manifest.Layers {
		names[l.Digest] = fmt.Sprintf("layer %d of %d", n+1, len(manifest.Layers))
		if len(history) == len(manifest.Layers) &&
			strings.HasPrefix(history[n].CreatedBy, builtBy) {
			if _, name, ok := strings.Cut(history[n].CreatedBy, ": "); ok {
				names[l.Digest] = name
			}
		}
	}
	return names
}

// namesWithArch is LayerNames for an artifact that may have images for several architectures.
func namesWithArch(img v1.Image) map[v1.Hash]string {
	names := LayerNames(img)
	config, err := img.ConfigFile()
	if err != nil || config.Architecture == "" {
		return names
	}
	for digest := range names {
		names[digest] += " " + config.Architecture
	}
	return names
}
