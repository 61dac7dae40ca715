package supplychain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// OrasCopy copies an image with everything that refers to it (oras cp -r): from HOST/PATH:TAG, or from
// oci:FILE:TAG, an OCI layout in a folder or a tar, to HOST/PATH:TAG.
func OrasCopy(t testing.TB, from, to string) error {
	t.Helper()
	_, err := run(t, Program(t, "oras"), "copy", from, to)
	return err
}

// OrasReferrers lists what refers to an image, by the API of the registry or by the fallback tag. The names
// are those of OrasCopy.
func OrasReferrers(t testing.TB, image string) ([]v1.Descriptor, error) {
	t.Helper()
	out, err := run(t, Program(t, "oras"), "referrers", image)
	if err != nil {
		return nil, err
	}
	var found []v1.Descriptor
	for line := range bytes.Lines(out) {
		var desc v1.Descriptor
		require.NoError(t, json.Unmarshal(line, &desc))
		found = append(found, desc)
	}
	return found, nil
}

// host is the HOST:PORT of an image's name.
func host(image string) string {
	name, _, _ := strings.Cut(image, "/")
	return name
}

// RegctlImport reads an image with a tag from an OCI layout in a tar and pushes it (regctl image import).
func RegctlImport(t testing.TB, archive, tag, image string) error {
	t.Helper()
	_, err := run(t, Program(t, "regctl"), "--host", "reg="+host(image)+",tls=disabled", "image", "import", "--name", tag, image, archive)
	return err
}

// RegctlReferrers lists what refers to an image, as OrasReferrers does.
func RegctlReferrers(t testing.TB, image string) ([]v1.Descriptor, error) {
	t.Helper()
	out, err := run(t, Program(t, "regctl"), "--host", "reg="+host(image)+",tls=disabled", "artifact", "list", "--format", "{{jsonPretty .}}", image)
	if err != nil {
		return nil, err
	}
	var list struct {
		Descriptors []v1.Descriptor `json:"descriptors"`
	}
	require.NoErrorf(t, json.Unmarshal(out, &list), "read regctl's list %s", out)
	return list.Descriptors, nil
}
