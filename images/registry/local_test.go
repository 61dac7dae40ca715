package registry

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
)

// TestLocal: images on this machine are opened, and pushed with the same digest, an index as a whole.
func TestLocal(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	layout, ociFile, docker := filepath.Join(dir, "layout"), filepath.Join(dir, "oci.tar"), filepath.Join(dir, "docker.tar")
	amd, arm, other := imagetest.RandomImage(t, "amd64", 1000, "a", "b"), imagetest.RandomImage(t, "arm64", 1000, "a"), imagetest.RandomImage(t, "amd64", 10, "c")
	index := imagetest.Index(t, amd, arm)
	for _, err := range []error{
		oci.WriteLayout(t.Context(), layout, "both", index),
		oci.WriteLayout(t.Context(), layout, "docker.io/library/other:1", other),
		oci.WriteOCIArchive(t.Context(), ociFile, "driver", "both", index),
		oci.WriteDockerArchive(t.Context(), docker, "debian:12", amd),
	} {
		require.NoError(t, err)
	}
	c := client(t, func(o *Options) { o.Offline = true })
	for _, tc := range []struct {
		ref  string
		want oci.Artifact
	}{
		{"oci:" + layout + ":both", index}, {"oci:" + layout + ":docker.io/library/other:1", other},
		{"oci-archive:" + ociFile, index}, {"oci-archive:" + ociFile + ":both", index},
		{"docker-archive:" + docker, nil}, {"docker-archive:" + docker + ":docker.io/library/debian:12", nil},
	} {
		b := require.Value(base(t, c, tc.ref, "amd64"))(t)
		if b.Digest != imagetest.Digest(t, b.Image) || !strings.HasPrefix(b.Name, dir) {
			t.Errorf("Base(%s) = %s %s; digest of the image %s", tc.ref, b.Name, b.Digest, imagetest.Digest(t, b.Image))
		}
		if tc.want != other {
			imagetest.SameLayers(t, b.Image, amd)
		}
		if tc.want != nil {
			got, _, err := c.Push(t.Context(), f.host()+"/x:1", require.Value(artifact(t, c, tc.ref))(t))
			require.NoError(t, err)
			assert.Equalf(t, imagetest.Digest(t, tc.want), got, "%s", tc.ref)
		}
	}
	for ref, want := range map[string]string{
		"oci:" + layout: "several images", "oci:" + layout + ":none": "no image named none", "oci:" + dir: "not an OCI layout",
		"oci-archive:" + docker: "not an OCI archive", "docker-archive:" + ociFile: "not an archive of docker save",
		"docker-archive:" + docker + ":x": "no image x", "oci-archive:" + dir + "/none": "there is no",
	} {
		assert.ErrorContainsf(t, assert.Err(base(t, c, ref, "amd64")), want, "Base(%s)", ref)
	}
	var missing *oci.PlatformError
	if _, err := base(t, c, "docker-archive:"+docker, "arm64"); !errors.As(err, &missing) {
		t.Errorf("docker-archive of another architecture: %v", err)
	}
}
