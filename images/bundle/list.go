package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/strictjson"
)

// MediaType is the type of the bundle's list, and the artifact type of its manifest.
const MediaType = "application/vnd.driver-container.bundle.v1+json"

// schema is the version of the list. A list of another version is refused.
const schema = 1

// List says what a bundle holds. Encode writes it as bundle.json, Decode reads it.
type List struct {
	Schema int `json:"schema"`
	// seconds since 1970, of SOURCE_DATE_EPOCH: the same input gives the same bytes
	Created   int64  `json:"created"`
	Tool      string `json:"tool"`   // program and version that wrote it
	Origin    string `json:"origin"` // repository whose name is replaced at the site
	Items     []Item `json:"items"`  // what an item belongs to comes before it
	Documents []Blob `json:"documents"`
	// in the order of import; also those that are not in the bundle
	Blobs  []Blob   `json:"blobs"`
	Absent []Absent `json:"absent,omitempty"` // blobs that the site has; sorted by digest
}

// Item is a manifest or an index that has a place in a repository.
type Item struct {
	Kind       ItemKind `json:"kind"`
	Title      string   `json:"title,omitempty"` // for people
	Repository string   `json:"repository"`      // at the origin, with its registry
	Tags       []string `json:"tags,omitempty"`
	// of what it belongs to, in the same repository
	Subject    *v1.Hash      `json:"subject,omitempty"`
	Descriptor v1.Descriptor `json:"descriptor"`
}

// tag is its first tag, "" if it has none.
func (i *Item) tag() string {
	if len(i.Tags) == 0 {
		return ""
	}
	return i.Tags[0]
}

// Blob is content by its digest. Size is in bytes.
type Blob struct {
	Digest v1.Hash `json:"digest"`
	Size   int64   `json:"size"`
}

func (b Blob) descriptor() v1.Descriptor {
	return v1.Descriptor{Digest: b.Digest, Size: b.Size}
}

// Absent is a blob that the site has according to Source: the digest of an earlier bundle's
// manifest, or the repository that was asked.
type Absent struct {
	Blob
	Source string `json:"source"`
}

// present returns the blobs that are in the bundle, in their order.
func (l *List) present() (here []Blob) {
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

// Encode returns the list as bundle.json has it. The same list gives the same bytes. It fails when
// Decode would refuse them.
func (l *List) Encode() (raw []byte, err error) {
	defer failure.Wrap(&err, "make the bundle's list")
	l.Schema = schema
	raw, err = json.Marshal(l)
	if err != nil {
		return nil, err
	}
	if len(raw) > MaxDocument {
		return nil, fmt.Errorf(
			"it has %d bytes, at most %d are allowed: make several bundles", len(raw), MaxDocument,
		)
	}
	return raw, l.check()
}

// Decode reads bundle.json strictly: its bytes are those that Encode writes. Its errors are
// findings.
func Decode(raw []byte) (*List, error) {
	l, err := decode(raw)
	if err != nil {
		return nil, fault(RuleList, "", "its list (bundle.json): %v", err)
	}
	return l, nil
}

func decode(raw []byte) (*List, error) {
	if len(raw) > MaxDocument {
		return nil, fmt.Errorf("it has more than %d bytes", MaxDocument)
	}
	l, err := strictjson.Decode[List](raw)
	if err != nil {
		return nil, fmt.Errorf("it is malformed: %w", err)
	}
	if l.Schema != schema {
		return nil, fmt.Errorf(
			"its version is %d, this program knows %d: use a newer driver-build",
			l.Schema,
			schema,
		)
	}
	again, err := json.Marshal(l)
	if err != nil || !bytes.Equal(again, raw) {
		return nil, errors.New(
			"it is malformed: its bytes are not those that driver-build writes for this content",
		)
	}
	return &l, l.check()
}
