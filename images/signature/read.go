package signature

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
)

// Bounds on what a registry serves for one image.
const (
	maxDocuments = 1000      // signatures and attestations
	maxTotal     = 256 << 20 // bytes of them
	maxSignature = 8 << 10   // bytes of base64; RSA of 4096 bits has 684
)

// evidence is one signed document that was found, not verified yet.
type evidence struct {
	document
	where      string // ".sig", ".att" or the digest of the referrer
	signatures [][]byte
	err        error // why it cannot be read
}

// collector reads the signatures and attestations of one subject.
type collector struct {
	subject  v1.Hash
	total    int64
	evidence []evidence
}

// collect returns the evidence among the attachments of a subject. Its error means that something could not
// be fetched or is beyond the bounds; a malformed document is evidence with an error.
func collect(s Subject) ([]evidence, error) {
	c := &collector{subject: s.Descriptor.Digest}
	for _, a := range s.Attachments {
		if err := c.add(a); err != nil {
			return nil, err
		}
	}
	return c.evidence, nil
}

func (c *collector) add(a oci.Attachment) error {
	known := []storage{bundle}
	where := a.Manifest.Desc.Digest.String()
	switch a.Tag {
	case "":
	case oci.SignatureTag(c.subject):
		known, where = []storage{sigTag}, string(sigTag)
	case oci.AttestationTag(c.subject):
		known, where = []storage{attTag}, string(attTag)
	default:
		return nil
	}
	m, err := parseManifest(a.Manifest)
	if err != nil {
		c.evidence = append(c.evidence, evidence{document: document{storage: known[0]}, where: where, err: err})
		return nil //nolint:nilerr // a finding
	}
	for _, layer := range m.Layers {
		if storageOf(layer) != known[0] {
			continue
		}
		if len(c.evidence) == maxDocuments {
			return fmt.Errorf("%s has more than %d signatures and attestations", c.subject, maxDocuments)
		}
		e := evidence{document: document{storage: known[0], predicate: m.Annotations[bundlePredicateAnnotation]}, where: where}
		raw, err := c.read(a, layer, e.limit())
		if err != nil {
			return fmt.Errorf("read %s of %s: %w", where, c.subject, err)
		}
		e.parse(raw, layer)
		c.evidence = append(c.evidence, e)
	}
	return nil
}

func parseManifest(d oci.Document) (*v1.Manifest, error) {
	if len(d.Raw) > oci.MaxManifest {
		return nil, fmt.Errorf("its manifest has %d bytes, more than %d", len(d.Raw), oci.MaxManifest)
	}
	m, err := v1.ParseManifest(bytes.NewReader(d.Raw))
	if err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	return m, nil
}

func storageOf(layer v1.Descriptor) storage {
	switch t := layer.MediaType; {
	case t == payloadMediaType:
		return sigTag
	case t == envelopeMediaType:
		return attTag
	case strings.HasPrefix(string(t), bundleMediaPrefix):
		return bundle
	}
	return ""
}

func (e *evidence) limit() int64 {
	switch e.storage {
	case sigTag:
		return maxPayload
	case attTag:
		return maxEnvelope
	}
	return maxBundle
}

// read returns the bytes of a layer, which have its digest; nil if the layer is larger than the limit, and no
// document of its kind.
func (c *collector) read(a oci.Attachment, layer v1.Descriptor, limit int64) (_ []byte, err error) {
	if layer.Size < 0 || layer.Size > limit {
		return nil, nil
	}
	if c.total += layer.Size; c.total > maxTotal {
		return nil, fmt.Errorf("its signatures and attestations have more than %d bytes together", int64(maxTotal))
	}
	for _, b := range a.Blobs {
		if b.Desc.Digest != layer.Digest {
			continue
		}
		r, err := b.Open()
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(io.LimitReader(r, layer.Size+1))
		switch err := errors.Join(err, r.Close()); {
		case err != nil:
			return nil, err
		case int64(len(raw)) != layer.Size || oci.HashOf(raw) != layer.Digest:
			return nil, fmt.Errorf("the layer %s is damaged", layer.Digest)
		}
		return raw, nil
	}
	return nil, fmt.Errorf("the layer %s is missing", layer.Digest)
}

func (e *evidence) parse(raw []byte, layer v1.Descriptor) {
	switch {
	case raw == nil:
		e.err = fmt.Errorf("its size is %d bytes, and such documents have at most %d", layer.Size, e.limit())
	case e.storage == sigTag:
		e.payload = raw
		text := layer.Annotations[signatureAnnotation]
		var signature []byte
		if len(text) > maxSignature {
			e.err = fmt.Errorf("its annotation %s has %d bytes", signatureAnnotation, len(text))
		} else if signature, e.err = base64.StdEncoding.DecodeString(text); e.err != nil {
			e.err = fmt.Errorf("its annotation %s: %w", signatureAnnotation, e.err)
		}
		e.signatures = [][]byte{signature}
	default:
		var env envelope
		if e.storage == attTag {
			env, e.err = decodeEnvelope(raw)
		} else {
			env, e.err = decodeBundle(raw)
		}
		e.payload = env.Payload
		for _, s := range env.Signatures {
			e.signatures = append(e.signatures, s.Sig)
		}
	}
}
