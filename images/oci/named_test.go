package oci_test

import (
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
)

// TestNamed: a name means what lies in this folder, except where it names the host of a registry.
func TestNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"dist", "sub/dist", "h.example/dist", "localhost/dist"} {
		require.NoError(t, oci.WriteLayout(t.Context(), dir, "x", imagetest.RandomImage(t, "amd64", 10, "x")))
	}
	for text, want := range map[string]string{
		"dist": "oci:dist", "dist:x": "oci:dist:x", "./dist": "oci:./dist", "sub/dist": "oci:sub/dist", "oci:dist": "oci:dist",
		"absent": "absent", "h.example/dist:x": "h.example/dist:x", "localhost/dist": "localhost/dist",
	} {
		assert.Equalf(t, want, oci.Named(text), "%s", text)
	}
}
