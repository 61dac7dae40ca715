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

func TestDescribe(t *testing.T) {
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
	d, err := client(t).Describe(t.Context(), ref, "amd64")
	if err != nil || d.Annotations["content"] != "x" || d.Digest != digest || d.Tag != digest || d.Size < 50 {
		t.Errorf("%+v, %v", d, err)
	}
	var platform *oci.PlatformError
	if _, err := c.Describe(t.Context(), ref, "arm64"); !errors.As(err, &platform) {
		t.Errorf("another architecture: %v", err)
	}
	for _, missing := range []string{f.host() + "/team/driver:two", f.host() + "/team/other:one"} {
		var remote *Error
		if _, err := c.Describe(t.Context(), missing, "amd64"); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &remote) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	// A mirror may be outdated: Describe does not ask it.
	mirrored := client(t, func(o *Options) { o.Mirrors = map[string][]string{f.host(): {"http://localhost:1"}} })
	if _, err := mirrored.Describe(t.Context(), ref, "amd64"); err != nil {
		t.Error(err)
	}
	off := client(t, func(o *Options) { o.Offline = true })
	assert.ErrorIsf(t, assert.Err(off.Describe(t.Context(), ref, "amd64")), fetch.ErrOffline, "offline")
	assert.Errorf(t, assert.Err(c.Describe(t.Context(), "UPPER/x", "amd64")), "not a reference, but taken")
}
