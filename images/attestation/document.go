package attestation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/documents"
)

// maxDocument bounds a document of the user, in bytes. The SBOM of an image with 700 packages has 1 MB.
const maxDocument = 32 << 20

// ReadDocument reads a file, or stdin if the file is "-".
func ReadDocument(file string, stdin io.Reader) (raw []byte, err error) {
	if file != "-" {
		return bounded.File(file, maxDocument)
	}
	return bounded.Read(stdin, maxDocument)
}

// NewDocument makes a document of a predicate with a type, which is a URI.
func NewDocument(predicateType string, raw []byte) (Document, error) {
	if !strings.Contains(predicateType, ":") || strings.ContainsAny(predicateType, " \t\n") {
		return Document{}, fmt.Errorf("--type %q is no URI: give, for example, https://slsa.dev/provenance/v1", predicateType)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return Document{}, fmt.Errorf("a predicate is an object in JSON: %w", err)
	}
	if _, statement := fields["predicateType"]; statement {
		return Document{}, errors.New("it is a whole statement of in-toto: give its predicate alone")
	}
	return Document{Type: predicateType, Body: raw}, nil
}

// SBOM makes a document of an SBOM: SPDX 2 or CycloneDX.
func SBOM(raw []byte) (Document, error) {
	var doc struct {
		SPDXVersion string `json:"spdxVersion"`
		BOMFormat   string `json:"bomFormat"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return Document{}, fmt.Errorf("it is no JSON: %w", err)
	}
	var format documents.Format
	switch {
	case strings.HasPrefix(doc.SPDXVersion, "SPDX-2"):
		format = documents.SPDX
	case doc.BOMFormat == "CycloneDX":
		format = documents.CycloneDX
	default:
		return Document{}, errors.New("it is no SBOM of SPDX 2 or CycloneDX")
	}
	return Document{Type: format.PredicateType(), Body: raw, Referrer: format.MediaType()}, nil
}

// VEX makes a document of statements about vulnerabilities in the format OpenVEX.
func VEX(raw []byte) (Document, error) {
	var doc struct {
		Context string `json:"@context"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return Document{}, fmt.Errorf("it is no JSON: %w", err)
	}
	if !strings.HasPrefix(doc.Context, documents.VEXType) {
		return Document{}, fmt.Errorf("its @context is %.80q: a document of OpenVEX has %s/v0.2.0", doc.Context, documents.VEXType)
	}
	return Document{Type: documents.VEXType, Body: raw}, nil
}
