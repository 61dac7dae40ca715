package registry

import (
	"errors"
	"io/fs"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/ocitest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

func describeImage(t *testing.T, c *Client, ref, arch string) (*Opened, error) {
	t.Helper()
	return c.Open(t.Context(), ref, OpenOptions{Arch: arch, Origin: true})
}

// TestOpenManifest: an image is found without its layers.
func TestOpenManifest(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := client(t)
	img, ok := mutate.Annotations(ocitest.Image(t, "amd64", 100, "file"), map[string]string{"content": "x"}).(v1.Image)
	if !ok {
		t.Fatal("no image")
	}
	ref := f.host() + "/team/driver:one"
	digest, _, err := c.Push(t.Context(), ref, img)
	require.NoError(t, err)
	d, err := describeImage(t, client(t), ref, "amd64")
	if err != nil || d.Manifest.Annotations["content"] != "x" || d.Digest != digest || d.Top != digest || d.Manifest.Layers[0].Size < 50 {
		t.Errorf("%+v, %v", d, err)
	}
	var platform *oci.PlatformError
	if _, err := describeImage(t, c, ref, "arm64"); !errors.As(err, &platform) {
		t.Errorf("another architecture: %v", err)
	}
	for _, missing := range []string{f.host() + "/team/driver:two", f.host() + "/team/other:one"} {
		var remote *Error
		if _, err := describeImage(t, c, missing, "amd64"); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &remote) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	// A mirror may be outdated: an Origin is not asked of it.
	mirrored := client(t, func(o *Options) { o.Mirrors = map[string][]string{f.host(): {"http://localhost:1"}} })
	if _, err := describeImage(t, mirrored, ref, "amd64"); err != nil {
		t.Error(err)
	}
	off := client(t, func(o *Options) { o.Offline = true })
	assert.ErrorIsf(t, assert.Err(describeImage(t, off, ref, "amd64")), fetch.ErrOffline, "offline")
	assert.Errorf(t, assert.Err(describeImage(t, c, "UPPER/x", "amd64")), "not a reference, but taken")
}
