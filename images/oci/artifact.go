// Package oci reads and writes OCI artifacts without a registry: manifests and indexes of any kind,
// and images on this machine: OCI layouts, OCI archives and the archives of `docker save`. An
// [Attachment] is what belongs to an image: a signature, an attestation, an SBOM.
//
// It speaks no protocol: package registry brings content here and takes it away. It runs nothing
// and unpacks no layer into files.
package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
)

// Bounds of documents that are read into memory. Registries accept manifests of up to 4 MiB.
const (
	MaxManifest = 4 << 20
	MaxConfig   = 8 << 20
)

// Artifact is a manifest or an index, with everything that it names: an image, an index of images,
// or any other artifact of a registry, such as a chart or an SBOM. A v1.Image and a v1.ImageIndex
// are artifacts; [NewArtifact] makes one of any kind.
type Artifact interface {
	MediaType() (types.MediaType, error)
	Digest() (v1.Hash, error)
	Size() (int64, error)
	RawManifest() ([]byte, error)
}

// Blob is a layer or a config.
type Blob struct {
	Desc v1.Descriptor
	Name string                        // what people call it; "" if nothing says it
	Open func() (io.ReadCloser, error) // the content is not verified: [Verify] does it
}

// Document is a manifest or an index.
type Document struct {
	Raw  []byte
	Desc v1.Descriptor
}

// HashOf returns the sha256 of b.
func HashOf(b []byte) v1.Hash {
	sum := sha256.Sum256(b)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// NewDocument is a manifest or an index of that type.
func NewDocument(raw []byte, mediaType types.MediaType) Document {
	return Document{
		raw,
		v1.Descriptor{MediaType: mediaType, Size: int64(len(raw)), Digest: HashOf(raw)},
	}
}

// NewManifest is a manifest of OCI's type. Its descriptor has its artifact type and its
// annotations.
func NewManifest(m v1.Manifest) (Document, error) {
	m.SchemaVersion = 2
	m.MediaType = types.OCIManifestSchema1
	raw, err := json.Marshal(m)
	d := NewDocument(raw, m.MediaType)
	d.Desc.ArtifactType = m.ArtifactType
	d.Desc.Annotations = m.Annotations
	return d, err
}

// EncodeJSON returns a value as JSON without HTML's escapes, which no document here needs, and
// without a line feed behind it.
func EncodeJSON(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// BytesBlob is a blob with this content and these annotations.
func BytesBlob(mediaType types.MediaType, content []byte, annotations map[string]string) Blob {
	d := NewDocument(content, mediaType)
	d.Desc.Annotations = annotations
	return d.Blob()
}

// Blob returns a document as a blob.
func (d Document) Blob() Blob {
	return Blob{
		Desc: d.Desc,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(d.Raw)), nil },
	}
}

// ReadBlob reads a blob of at most limit bytes and verifies it.
func ReadBlob(b Blob, limit int64) ([]byte, error) {
	d := b.Desc
	if d.Size > limit {
		return nil, fmt.Errorf("blob %s has %d bytes; at most %d are read", d.Digest, d.Size, limit)
	}
	r, err := b.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(Verify(r, d, "blob"))
}

// Verifier returns an error with the last bytes of its content if the content does not match the
// descriptor.
type Verifier struct {
	io.ReadCloser
	Desc  v1.Descriptor
	where string
	hash  hash.Hash
	size  int64
}

// Verify returns a reader of r that compares size and digest with a descriptor; a size of -1 is not
// known. where is for messages.
func Verify(r io.ReadCloser, d v1.Descriptor, where string) *Verifier {
	v, ok := r.(*Verifier)
	if ok && v.Desc.Digest == d.Digest && v.Desc.Size == d.Size {
		return v
	}
	return &Verifier{ReadCloser: r, Desc: d, where: where, hash: sha256.New()}
}

func (v *Verifier) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	v.size += int64(n)
	whole := v.Desc.Size >= 0 && v.size >= v.Desc.Size
	if !whole && !errors.Is(err, io.EOF) {
		return n, err
	}
	got := hex.EncodeToString(v.hash.Sum(nil))
	if got == v.Desc.Digest.Hex && (v.Desc.Size < 0 || v.size == v.Desc.Size) {
		return n, err
	}
	return n, &fetch.MismatchError{
		URL: v.where + " (" + v.Desc.Digest.String() + ")", Want: v.Desc.Digest.Hex, Got: got,
		WantSize: v.Desc.Size, GotSize: v.size, Named: true,
	}
}

// Blobs is the place that has the content of an artifact.
type Blobs struct {
	where    string // for messages
	open     func(d v1.Descriptor) (io.ReadCloser, error)
	manifest func(h v1.Hash) ([]byte, error) // nil: manifests are among the blobs
}

// RemoteBlobs is a place that is asked for each manifest, which it verifies, and each blob.
func RemoteBlobs(
	where string,
	manifest func(v1.Hash) ([]byte, error),
	open func(v1.Descriptor) (io.ReadCloser, error),
) Blobs {
	return Blobs{where: where, open: open, manifest: manifest}
}

// StoreBlobs returns the blobs of a store.
func StoreBlobs(s *fetch.Store) Blobs {
	return Blobs{
		where: "the cache",
		open:  func(d v1.Descriptor) (io.ReadCloser, error) { return s.Open(d.Digest.Hex) },
	}
}

// Document reads a manifest of at most limit bytes, or on this machine a config, and verifies it.
func (b Blobs) Document(h v1.Hash, limit int64) ([]byte, error) {
	if b.manifest != nil {
		return b.manifest(h)
	}
	return b.read(v1.Descriptor{Digest: h}, limit)
}

// read reads a blob of at most limit bytes and compares its digest.
func (b Blobs) read(d v1.Descriptor, limit int64) ([]byte, error) {
	if d.Digest.Algorithm != "sha256" {
		return nil, fmt.Errorf("%s: only sha256 is supported", d.Digest)
	}
	r, err := b.open(d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := bounded.Read(Verify(r, v1.Descriptor{Digest: d.Digest, Size: -1}, b.where), limit)
	if err != nil {
		return nil, fmt.Errorf("read %s in %s: %w", d.Digest, b.where, err)
	}
	return raw, nil
}

// stored is an artifact of any kind over blobs.
type stored struct {
	raw   []byte
	doc   document
	blobs Blobs
}

// NewArtifact makes an artifact of a manifest or index whose digest was verified. [Collect] reads
// what it names.
func NewArtifact(raw []byte, b Blobs) (Artifact, error) {
	doc, err := parse(raw)
	if err != nil {
		return nil, err
	}
	return &stored{raw, doc, b}, nil
}

func (s *stored) MediaType() (types.MediaType, error) { return s.doc.MediaType, nil }
func (s *stored) Digest() (v1.Hash, error)            { return HashOf(s.raw), nil }
func (s *stored) Size() (int64, error)                { return int64(len(s.raw)), nil }
func (s *stored) RawManifest() ([]byte, error)        { return s.raw, nil }
