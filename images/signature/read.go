package signature

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
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

// errBeyond is the fault of what is beyond the bounds. Whoever may push can bring an image there, so it is no
// error of reading: a good signature before it counts.
var errBeyond = fmt.Errorf("more than %d signatures and attestations, or more than %d MiB of them: the others are not read", maxDocuments, maxTotal>>20)

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
	beyond   bool
	evidence []evidence
}

// collect returns the evidence among the attachments of a subject. Its error means that something could not
// be fetched; a malformed document, and what is beyond the bounds, is evidence with an error.
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
		if storageOf(layer) != known[0] || c.beyond {
			continue
		}
		e := evidence{document: document{storage: known[0], predicate: m.Annotations[bundlePredicateAnnotation]}, where: where}
		fits := layer.Size >= 0 && layer.Size <= e.limit()
		if fits {
			c.total += layer.Size
		}
		if c.beyond = len(c.evidence) == maxDocuments || c.total > maxTotal; c.beyond {
			e.err = errBeyond
		} else if !fits {
			e.err = fmt.Errorf("its size is %d bytes, and such documents have at most %d", layer.Size, e.limit())
		} else if raw, err := readLayer(a, layer); err != nil {
			return fmt.Errorf("read %s of %s: %w", where, c.subject, err)
		} else {
			e.parse(raw, layer)
		}
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

// readLayer returns the bytes of a layer, which have its digest.
func readLayer(a oci.Attachment, layer v1.Descriptor) ([]byte, error) {
	i := slices.IndexFunc(a.Blobs, func(b oci.Blob) bool { return b.Desc.Digest == layer.Digest })
	if i < 0 {
		return nil, fmt.Errorf("the layer %s is missing", layer.Digest)
	}
	return oci.ReadBlob(oci.Blob{Desc: layer, Open: a.Blobs[i].Open}, layer.Size)
}

func (e *evidence) parse(raw []byte, layer v1.Descriptor) {
	switch e.storage {
	case sigTag:
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
