package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/fetch"
)

// Bounds of documents that are read into memory. Registries accept manifests of up to 4 MiB.
const (
	MaxManifest = 4 << 20
	MaxConfig   = 8 << 20
)

// Blobs is the place that has the content of an artifact.
type Blobs struct {
	where    string // for messages
	open     func(d v1.Descriptor) (io.ReadCloser, error)
	manifest func(h v1.Hash) ([]byte, error) // nil: manifests are among the blobs
}

// RemoteBlobs is a place that is asked for each manifest, which it verifies, and each blob.
func RemoteBlobs(where string, manifest func(v1.Hash) ([]byte, error), open func(v1.Descriptor) (io.ReadCloser, error)) Blobs {
	return Blobs{where: where, open: open, manifest: manifest}
}

// StoreBlobs returns the blobs of a store.
func StoreBlobs(s *fetch.Store) Blobs {
	return Blobs{where: "the cache", open: func(d v1.Descriptor) (io.ReadCloser, error) {
		if d.Digest.Algorithm != "sha256" {
			return nil, fmt.Errorf("%s: only sha256 is supported", d.Digest)
		}
		return s.Open(d.Digest.Hex)
	}}
}

// Document reads a manifest or a config of bounded size and verifies it.
func (b Blobs) Document(h v1.Hash, limit int64) (_ []byte, err error) {
	if b.manifest != nil {
		return b.manifest(h)
	}
	r, err := b.open(v1.Descriptor{Digest: h})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s in %s: %w", h, b.where, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s in %s is larger than %d bytes: not a manifest or config", h, b.where, limit)
	}
	if sum := sha256.Sum256(data); h.Algorithm != "sha256" || hex.EncodeToString(sum[:]) != h.Hex {
		return nil, &fetch.MismatchError{
			URL: b.where + " (" + h.String() + ")", Want: h.Hex, Got: hex.EncodeToString(sum[:]), GotSize: int64(len(data)), Named: true,
		}
	}
	return data, nil
}

// Image is a v1.Image over blobs. Its documents are in memory and verified; each layer is read when it is
// opened.
type Image struct {
	Raw       []byte
	mediaType types.MediaType
	manifest  *v1.Manifest
	rawConfig []byte
	config    *v1.ConfigFile
	blobs     Blobs
}

var _ v1.Image = (*Image)(nil)

// NewImage parses a verified manifest and reads its config.
func NewImage(raw []byte, b Blobs) (*Image, error) {
	m, err := ParseManifest(raw)
	if err != nil {
		return nil, err
	}
	i := &Image{Raw: raw, mediaType: mediaTypeOf(raw, m.MediaType), manifest: m, blobs: b}
	if i.rawConfig, err = b.Document(m.Config.Digest, MaxConfig); err != nil {
		return nil, fmt.Errorf("read the image config: %w", err)
	}
	if err := checkSize(m.Config, i.rawConfig); err != nil {
		return nil, fmt.Errorf("read the image config: %w", err)
	}
	if i.config, err = v1.ParseConfigFile(bytes.NewReader(i.rawConfig)); err != nil {
		return nil, fmt.Errorf("the image config %s is malformed: %w", m.Config.Digest, err)
	}
	if have, want := len(i.config.RootFS.DiffIDs), len(m.Layers); have != want {
		return nil, fmt.Errorf("the image config %s lists %d layers, its manifest %d: not a container image", m.Config.Digest, have, want)
	}
	return i, nil
}

// ParseManifest parses an image manifest and checks its descriptors.
func ParseManifest(raw []byte) (*v1.Manifest, error) {
	m, err := parseGeneric(raw)
	if err != nil {
		return nil, err
	}
	for _, d := range m.Layers {
		if !d.MediaType.IsLayer() || !d.MediaType.IsDistributable() {
			return nil, fmt.Errorf("the image manifest has a layer of type %q: not a file system layer that can be copied", d.MediaType)
		}
	}
	return m, nil
}

// parseGeneric parses a manifest of anything, and checks its descriptors.
func parseGeneric(raw []byte) (*v1.Manifest, error) {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the manifest is malformed: %w", err)
	}
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if d.Digest.Algorithm != "sha256" || d.Size < 0 {
			return nil, fmt.Errorf("the manifest is malformed: blob %q of %d bytes (only sha256 is supported)", d.Digest, d.Size)
		}
	}
	return m, nil
}

// MediaType returns the type of the manifest.
func (i *Image) MediaType() (types.MediaType, error) { return i.mediaType, nil }

// Size returns the size of the manifest in bytes.
func (i *Image) Size() (int64, error) { return int64(len(i.Raw)), nil }

// ConfigName returns the digest of the config.
func (i *Image) ConfigName() (v1.Hash, error) { return i.manifest.Config.Digest, nil }

// ConfigFile returns a copy of the config.
func (i *Image) ConfigFile() (*v1.ConfigFile, error) { return i.config.DeepCopy(), nil }

// RawConfigFile returns the bytes of the config.
func (i *Image) RawConfigFile() ([]byte, error) { return i.rawConfig, nil }

// Digest returns the digest of the manifest.
func (i *Image) Digest() (v1.Hash, error) { return partial.Digest(i) }

// Manifest returns a copy of the manifest.
func (i *Image) Manifest() (*v1.Manifest, error) { return i.manifest.DeepCopy(), nil }

// RawManifest returns the bytes of the manifest.
func (i *Image) RawManifest() ([]byte, error) { return i.Raw, nil }

func (i *Image) layer(n int) *layer {
	return &layer{i.manifest.Layers[n], i.config.RootFS.DiffIDs[n], i.blobs}
}

// LayerByDiffID returns the layer whose uncompressed content has the digest h.
func (i *Image) LayerByDiffID(h v1.Hash) (v1.Layer, error) {
	for n, d := range i.config.RootFS.DiffIDs {
		if d == h {
			return i.layer(n), nil
		}
	}
	return nil, fmt.Errorf("the image has no layer with diff ID %s", h)
}

// LayerByDigest returns the layer, or the config, whose blob has the digest h.
func (i *Image) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	if h == i.manifest.Config.Digest {
		return partial.ConfigLayer(i)
	}
	for n, d := range i.manifest.Layers {
		if d.Digest == h {
			return i.layer(n), nil
		}
	}
	return nil, fmt.Errorf("the image has no layer %s", h)
}

// open returns a blob of the image. At the end of a layer it has compared what the layer unpacks to.
func (i *Image) open(d v1.Descriptor) (io.ReadCloser, error) {
	r, err := i.blobs.blob(d).Open()
	for n, l := range i.manifest.Layers {
		if err == nil && l.Digest == d.Digest {
			return checkUnpacked(r, i.config.RootFS.DiffIDs[n]), nil
		}
	}
	return r, err
}

// Layers returns the layers, the lowest first.
func (i *Image) Layers() ([]v1.Layer, error) {
	out := make([]v1.Layer, len(i.manifest.Layers))
	for n := range out {
		out[n] = i.layer(n)
	}
	return out, nil
}

// layer is one layer of an image.
type layer struct {
	desc   v1.Descriptor
	diffID v1.Hash
	blobs  Blobs
}

var _ v1.Layer = (*layer)(nil)

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
	out, err := decompress(r)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack layer %s: %w", l.desc.Digest, err), r.Close())
	}
	return out, nil
}

// Verifier returns an error at the end of its content if the content does not match the descriptor.
type Verifier struct {
	io.ReadCloser
	Desc  v1.Descriptor
	where string
	hash  hash.Hash
	size  int64
}

// Verify returns a reader of r that compares size and digest with a descriptor. where is for messages.
func Verify(r io.ReadCloser, d v1.Descriptor, where string) *Verifier {
	return &Verifier{ReadCloser: r, Desc: d, where: where, hash: sha256.New()}
}

func (v *Verifier) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	v.size += int64(n)
	if v.size > v.Desc.Size || errors.Is(err, io.EOF) {
		if bad := v.CheckDigest(); bad != nil {
			return n, bad
		}
	}
	return n, err
}

// CheckDigest compares what was read so far; the error is a *fetch.MismatchError.
func (v *Verifier) CheckDigest() error {
	got := hex.EncodeToString(v.hash.Sum(nil))
	if v.size == v.Desc.Size && got == v.Desc.Digest.Hex {
		return nil
	}
	return &fetch.MismatchError{
		URL: v.where + " (" + v.Desc.Digest.String() + ")", Want: v.Desc.Digest.Hex, Got: got, WantSize: v.Desc.Size, GotSize: v.size, Named: true,
	}
}
