package attestation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/textfile"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/signature"
	"github.com/driver-container/driver-container/images/strictjson"
)

// Document is JSON about images.
type Document struct {
	// the indexes and images that it is about; nil: the artifact and every image in it
	Subjects []v1.Hash
	Type     string // of the predicate
	Body     []byte
	// Referrer is the artifact type of a referrer that has the document as it is, for programs that
	// do not read attestations; "": there is none.
	Referrer string
	// Key is the digest of what the document was made from. The referrer has it as
	// [recipe.LabelKey], so that a later build finds the document; "": it is not known.
	Key string
}

// maxDocument bounds a document of the user, in bytes. The SBOM of an image with 700 packages has 1
// MB.
const maxDocument = 32 << 20

// ReadDocument reads a file, or stdin if the file is "-".
func ReadDocument(file string, stdin io.Reader) (raw []byte, err error) {
	if file != "-" {
		return textfile.Read(file, maxDocument)
	}
	return bounded.Read(textfile.NewReader(stdin), maxDocument)
}

// NewDocument makes a document of a predicate with a type, which is a URI.
func NewDocument(predicateType string, raw []byte) (Document, error) {
	if !strings.Contains(predicateType, ":") || strings.ContainsAny(predicateType, " \t\n") {
		return Document{}, fmt.Errorf(
			"--type %q is no URI: give, for example, https://slsa.dev/provenance/v1",
			predicateType,
		)
	}
	fields, err := strictjson.Decode[map[string]json.RawMessage](raw)
	if err != nil {
		return Document{}, fmt.Errorf("a predicate is an object in JSON: %w", err)
	}
	if _, statement := fields["predicateType"]; statement {
		return Document{}, errors.New(
			"it is a whole statement of in-toto: give its predicate alone",
		)
	}
	return Document{Type: predicateType, Body: raw}, nil
}

// SBOM makes a document of an SBOM: SPDX 2 or CycloneDX.
func SBOM(raw []byte) (Document, error) {
	type formats struct {
		SPDXVersion string `json:"spdxVersion"`
		BOMFormat   string `json:"bomFormat"`
	}
	doc, err := strictjson.Decode[formats](raw)
	if err != nil {
		return Document{}, fmt.Errorf("it is no JSON: %w", err)
	}
	format := documents.SPDX
	if doc.BOMFormat == "CycloneDX" {
		format = documents.CycloneDX
	} else if !strings.HasPrefix(doc.SPDXVersion, "SPDX-2") {
		return Document{}, errors.New("it is no SBOM of SPDX 2 or CycloneDX")
	}
	return Document{Type: format.PredicateType(), Body: raw, Referrer: format.MediaType()}, nil
}

// VEX makes a document of statements about vulnerabilities in the format OpenVEX. Publication.CheckVEX
// checks it.
func VEX(raw []byte) (Document, error) { return NewDocument(documents.VEXType, raw) }

// about returns the positions of the subjects that the document is about.
func (d Document) about(all []signature.Subject) (found []int, err error) {
	if !json.Valid(d.Body) {
		return nil, fmt.Errorf("the document of type %s is no JSON", d.Type)
	}
	for i, s := range all {
		if d.Subjects == nil || slices.Contains(d.Subjects, s.Descriptor.Digest) {
			found = append(found, i)
		}
	}
	if len(found) < len(d.Subjects) {
		return nil, fmt.Errorf(
			"the document of type %s is about %s, and not all of that is in the image",
			d.Type,
			d.Subjects,
		)
	}
	return found, nil
}
