package supplychain

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
)

// Kind is a format of documents.
type Kind string

// The formats that Validate knows.
const (
	SPDX       Kind = "spdx"       // SPDX 2.3, JSON
	CycloneDX  Kind = "cyclonedx"  // CycloneDX, JSON
	Statement  Kind = "statement"  // in-toto statement v1 with any predicate
	Provenance Kind = "provenance" // in-toto statement v1 with SLSA provenance v1
	OpenVEX    Kind = "openvex"
)

// Validate reads a file with the library of the format's project. Members that the library does not know are
// errors too.
func Validate(t testing.TB, kind Kind, file string) error {
	t.Helper()
	_, err := run(t, Program(t, "validate"), string(kind), file)
	return err
}

// SyftPackages returns the package URLs that syft finds in an SBOM, sorted.
func SyftPackages(t testing.TB, file string) ([]string, error) {
	t.Helper()
	out, err := run(t, Program(t, "syft"), "convert", file, "--output", "syft-json", "--quiet")
	if err != nil {
		return nil, err
	}
	var document struct {
		Artifacts []struct {
			PURL string `json:"purl"`
		} `json:"artifacts"`
	}
	require.NoErrorf(t, json.Unmarshal(out, &document), "read syft's output")
	var found []string
	for _, a := range document.Artifacts {
		found = append(found, a.PURL)
	}
	slices.Sort(found)
	return found, nil
}
