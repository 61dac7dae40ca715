package supplychain

import "testing"

// Kind is a format of documents.
type Kind string

// The formats that Validate knows.
const (
	SPDX       Kind = "spdx"       // SPDX 2.3, JSON
	CycloneDX  Kind = "cyclonedx"  // CycloneDX, JSON
	Statement  Kind = "statement"  // in-toto statement v1 with any predicate
	Provenance Kind = "provenance" // in-toto statement v1 with SLSA provenance v1
	OpenVEX    Kind = "openvex"
	Layout     Kind = "layout" // an OCI layout, a folder: its index, manifests and configurations
)

// Validate reads a file, of a layout the folder, with the library of the format's project. Members that the library does not
// know are errors too.
func Validate(t testing.TB, kind Kind, file string) error {
	t.Helper()
	_, err := run(t, Program(t, "validate"), string(kind), file)
	return err
}
