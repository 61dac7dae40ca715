package supplychain

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// OrasCopy copies an image with everything that refers to it from an OCI layout in a tar to
// HOST/PATH:TAG.
func OrasCopy(t testing.TB, archive, tag, to string) error {
	t.Helper()
	_, err := run(
		t,
		Program(t, "oras"),
		"cp",
		"-r",
		"--from-oci-layout",
		"--to-plain-http",
		archive+":"+tag,
		to,
	)
	return err
}

// RegctlImport reads an image with a tag from an OCI layout in a tar and pushes it (regctl image
// import).
func RegctlImport(t testing.TB, archive, tag, image string) error {
	t.Helper()
	_, err := regctl(t, image, "image", "import", "--name", tag, image, archive)
	return err
}

// RegctlReferrers lists what refers to an image, by the API of the registry or by the fallback tag.
func RegctlReferrers(t testing.TB, image string) []v1.Descriptor {
	t.Helper()
	out, err := regctl(t, image, "artifact", "list", "--format", "{{jsonPretty .}}", image)
	require.NoError(t, err)
	var list struct {
		Descriptors []v1.Descriptor `json:"descriptors"`
	}
	require.NoErrorf(t, json.Unmarshal([]byte(out), &list), "read regctl's list %s", out)
	return list.Descriptors
}

func regctl(t testing.TB, image string, args ...string) (string, error) {
	t.Helper()
	host, _, _ := strings.Cut(image, "/")
	return run(
		t,
		Program(t, "regctl"),
		append([]string{"--host", "reg=" + host + ",tls=disabled"}, args...)...)
}
