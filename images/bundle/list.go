package bundle

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/oci"
)

// MediaType is the type of the bundle's list, and the artifact type of its manifest.
const MediaType = "application/vnd.driver-container.bundle.v1+json"

// schema is the version of the list. A list of another version is refused.
const schema = 1

// ErrUnsound says that a bundle is not what its list and its signature say: damaged, incomplete, or changed.
var ErrUnsound = failure.New(failure.Content, "the bundle is not sound")

// List says what a bundle holds. Encode writes it as bundle.json, Decode reads it.
type List struct {
	Schema    int      `json:"schema"`
	Created   int64    `json:"created"` // seconds since 1970, of SOURCE_DATE_EPOCH: the same input gives the same bytes
	Tool      string   `json:"tool"`    // program and version that wrote it
	Origin    string   `json:"origin"`  // repository whose name is replaced at the site
	Items     []Item   `json:"items"`   // what an item belongs to comes before it
	Documents []Blob   `json:"documents"`
	Blobs     []Blob   `json:"blobs"`            // in the order of import; also those that are not in the bundle
	Absent    []Absent `json:"absent,omitempty"` // blobs that the site has; sorted by digest
	Parts     []int    `json:"parts,omitempty"`  // of earlier versions, which wrote several files; only one is read
}

// Item is a manifest or an index that has a place in a repository.
type Item struct {
	Kind       Kind          `json:"kind"`
	Title      string        `json:"title,omitempty"` // for people
	Repository string        `json:"repository"`      // at the origin, with its registry
	Tags       []string      `json:"tags,omitempty"`
	Subject    *v1.Hash      `json:"subject,omitempty"` // of what it belongs to, in the same repository
	Descriptor v1.Descriptor `json:"descriptor"`
}

// Blob is content by its digest. Size is in bytes.
type Blob struct {
	Digest v1.Hash `json:"digest"`
	Size   int64   `json:"size"`
}

// Absent is a blob that the site has according to Source: the digest of an earlier bundle's manifest, or the
// repository that was asked.
type Absent struct {
	Blob
	Source string `json:"source"`
}

// Signer signs the manifest of a bundle. It returns a referrer whose one layer is a sigstore bundle.
type Signer func(ctx context.Context, subject v1.Descriptor) (oci.Attachment, error)

// Verifier says why what Signer returned is no valid signature of a subject by a key that is trusted.
type Verifier func(ctx context.Context, subject v1.Descriptor, signature oci.Attachment) error

// Present returns the blobs that are in the bundle, in their order.
func (l *List) Present() (here []Blob) {
	absent := map[v1.Hash]bool{}
	for _, a := range l.Absent {
		absent[a.Digest] = true
	}
	for _, b := range l.Blobs {
		if !absent[b.Digest] {
			here = append(here, b)
		}
	}
	return here
}
