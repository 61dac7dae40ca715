package signature

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/strictjson"
)

// Bounds on what a registry serves for one image.
const (
	maxDocuments = 1000      // signatures and attestations
	maxTotal     = 256 << 20 // bytes of them
)

// errBeyond is the fault of what is beyond the bounds. Whoever may push can bring an image there,
// so it is no error of reading: a good signature before it counts.
var errBeyond = fmt.Errorf(
	"more than %d signatures and attestations, or more than %d MiB of them: the others are not read",
	maxDocuments,
	maxTotal>>20,
)

// evidence is one signed document that was found, not verified yet.
type evidence struct {
	document
	where      string // ".sig", ".att" or the digest of the referrer
	signatures [][]byte
	err        error // why it cannot be read
}

// collect returns the evidence among the attachments of a subject. Its error means that something
// could not be fetched; a malformed document, and what is beyond the bounds, is evidence with an
// error.
func collect(s Subject) (all []evidence, err error) {
	total := int64(0)
	for _, a := range s.Attachments {
		e := evidence{document: document{storage: bundle}, where: a.Manifest.Desc.Digest.String()}
		if a.Tag != "" {
			e.storage = storage(strings.TrimPrefix(a.Tag, oci.ReferrersTag(s.Descriptor.Digest)))
			e.where = string(e.storage)
			if e.storage != sigTag && e.storage != attTag {
				continue
			}
		}
		m, err := strictjson.Decode[v1.Manifest](a.Manifest.Raw)
		if err != nil {
			e.err = fmt.Errorf("its manifest: %w", err)
			all = append(all, e)
			continue
		}
		e.predicate = m.Annotations[bundlePredicateAnnotation]
		for _, layer := range m.Layers {
			limit := e.storage.limit(layer.MediaType)
			if limit == 0 {
				continue
			}
			found := e
			fits := layer.Size >= 0 && layer.Size <= limit
			if fits {
				total += layer.Size
			}
			if len(all) == maxDocuments || total > maxTotal {
				e.err = errBeyond
				return append(all, e), nil
			}
			if !fits {
				found.err = fmt.Errorf(
					"its size is %d bytes, and such documents have at most %d",
					layer.Size,
					limit,
				)
			} else if err := found.read(a, layer); err != nil {
				return nil, fmt.Errorf("read %s of %s: %w", e.where, s.Descriptor.Digest, err)
			}
			all = append(all, found)
		}
	}
	return all, nil
}

// limit returns how many bytes a layer of a type may have; 0: it is no document of this storage.
func (s storage) limit(t types.MediaType) int64 {
	switch {
	case s == sigTag && t == payloadMediaType:
		return maxPayload
	case s == attTag && t == envelopeMediaType:
		return maxEnvelope
	case s == bundle && strings.HasPrefix(string(t), bundleMediaPrefix):
		return maxBundle
	}
	return 0
}

// read reads a layer. Its error means that the layer could not be fetched.
func (e *evidence) read(a oci.Attachment, layer v1.Descriptor) error {
	i := slices.IndexFunc(a.Blobs, func(b oci.Blob) bool { return b.Desc.Digest == layer.Digest })
	if i < 0 {
		return fmt.Errorf("the layer %s is missing", layer.Digest)
	}
	raw, err := oci.ReadBlob(oci.Blob{Desc: layer, Open: a.Blobs[i].Open}, layer.Size)
	if err != nil {
		return err
	}
	if e.storage == sigTag {
		e.payload = raw
		e.signatures = make([][]byte, 1)
		e.signatures[0], err = base64.StdEncoding.DecodeString(
			layer.Annotations[signatureAnnotation],
		)
		if err != nil {
			e.err = fmt.Errorf("its annotation %s: %w", signatureAnnotation, err)
		}
		return nil
	}
	var env envelope
	env, e.err = decodeEnvelope(raw, e.storage)
	e.payload = env.Payload
	for _, s := range env.Signatures {
		e.signatures = append(e.signatures, s.Sig)
	}
	return nil
}
