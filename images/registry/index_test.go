package registry

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/ocitest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/oci"
)

// An artifact that was written to this machine is pushed with the same digest, an index as a whole.
func TestLocalIsPushed(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	index := ocitest.Index(t, ocitest.Image(t, "amd64", 1000, "a", "b"), ocitest.Image(t, "arm64", 1000, "a"))
	img := ocitest.Image(t, "amd64", 10, "c")
	layout, archive := filepath.Join(dir, "layout"), filepath.Join(dir, "oci.tar")
	for _, err := range []error{
		oci.WriteLayout(t.Context(), layout, "both", index),
		oci.WriteLayout(t.Context(), layout, "one", img),
		oci.WriteOCIArchive(t.Context(), archive, "driver", "both", index),
	} {
		require.NoError(t, err)
	}
	c := client(t)
	for ref, want := range map[string]oci.Artifact{"oci:" + layout + ":both": index, "oci:" + layout + ":one": img, "oci-archive:" + archive: index} {
		a := require.Value(artifact(t, c, ref))(t)
		if got, _, err := c.Push(t.Context(), f.host()+"/x:1", a); err != nil || got != ocitest.Digest(t, want) {
			t.Errorf("Push(Open(%s)) = %s, %v; want %s", ref, got, err, ocitest.Digest(t, want))
		}
	}
	for _, bad := range []string{"x:1", "oci:" + layout, "oci:" + dir, "oci-archive:" + layout} {
		if a, err := oci.OpenLocal(t.Context(), bad); err == nil {
			t.Errorf("OpenLocal(%s) = %v; want an error", bad, a)
		}
	}
}
