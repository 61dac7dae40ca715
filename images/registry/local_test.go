package registry

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/ocitest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/oci"
)

func TestBaseLocal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layout, ociFile, docker := filepath.Join(dir, "layout"), filepath.Join(dir, "oci.tar"), filepath.Join(dir, "docker.tar")
	amd, arm, other := ocitest.Image(t, "amd64", 1000, "a", "b"), ocitest.Image(t, "arm64", 1000, "a"), ocitest.Image(t, "amd64", 10, "c")
	index := ocitest.Index(t, amd, arm)
	for _, err := range []error{
		oci.WriteLayout(t.Context(), layout, "both", index),
		oci.WriteLayout(t.Context(), layout, "docker.io/library/other:1", other),
		oci.WriteOCIArchive(t.Context(), ociFile, "driver", "both", index),
		oci.WriteDockerArchive(t.Context(), docker, "debian:12", amd),
	} {
		require.NoError(t, err)
	}
	c := client(t, func(o *Options) { o.Offline = true })
	tests := []struct {
		ref, arch string
		want      v1.Image
	}{
		{"oci:" + layout + ":both", "amd64", amd},
		{"oci:" + layout + ":both", "arm64", arm},
		{"oci:" + layout + ":docker.io/library/other:1", "amd64", other},
		{"oci-archive:" + ociFile, "arm64", arm},
		{"oci-archive:" + ociFile + ":both", "amd64", amd},
		{"docker-archive:" + docker, "amd64", amd},
		{"docker-archive:" + docker + ":docker.io/library/debian:12", "amd64", amd},
	}
	for _, tc := range tests {
		b, err := base(t, c, tc.ref, tc.arch)
		if err != nil {
			t.Errorf("Base(%s): %v", tc.ref, err)
			continue
		}
		if !oci.IsLocal(tc.ref) || b.Digest != ocitest.Digest(t, b.Image) || !strings.HasPrefix(b.Name, dir) {
			t.Errorf("Base(%s) = %s %s; digest of the image %s", tc.ref, b.Name, b.Digest, ocitest.Digest(t, b.Image))
		}
		assert.Equalf(t, b.Digest, require.Value(c.Open(t.Context(), tc.ref, OpenOptions{Arch: tc.arch}))(t).Digest, "%s", tc.ref)
		ocitest.SameLayers(t, b.Image, tc.want)
		if !strings.HasPrefix(tc.ref, "docker") && b.Digest != ocitest.Digest(t, tc.want) {
			t.Errorf("Base(%s) = %s; want %s", tc.ref, b.Digest, ocitest.Digest(t, tc.want))
		}
	}
	for ref, want := range map[string]string{
		"oci:" + layout:                   "several images",
		"oci:" + layout + ":none":         "no image named none",
		"oci:" + dir:                      "not an OCI layout",
		"oci-archive:" + docker:           "not an OCI archive",
		"docker-archive:" + ociFile:       "not an archive of docker save",
		"docker-archive:" + docker + ":x": "no image x",
		"oci-archive:" + dir + "/none":    "no such file",
	} {
		assert.ErrorContainsf(t, assert.Err(base(t, c, ref, "amd64")), want, "Base(%s)", ref)
	}
	var missing *oci.PlatformError
	if _, err := base(t, c, "docker-archive:"+docker, "arm64"); !errors.As(err, &missing) {
		t.Errorf("docker-archive of another architecture: %v", err)
	}
}
