package registry

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
)

// TestRealRegistry pushes, attaches, copies and pulls with Docker's own registry from Debian's package, over a connection
// that breaks. It has no referrers API.
func TestRealRegistry(t *testing.T) {
	t.Parallel()
	server, c := imagetest.NewDistribution(t), client(t)
	amd, arm := imagetest.RandomImage(t, "amd64", 2<<20, "shared", "amd"), imagetest.RandomImage(t, "arm64", 1000, "shared small", "arm")
	index := imagetest.Index(t, amd, arm)
	var broken atomic.Bool
	server.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		breaks := r.Method == http.MethodPatch && r.ContentLength > 1<<20 && !broken.Swap(true)
		if breaks {
			cut(w)
		}
		return breaks
	})
	ref, to := server.Host+"/team/driver:1-os", server.Host+"/mirror/driver:1"
	mustPush(t, ref, index)
	assert.Equal(t, true, broken.Load())
	if stats := mustPush(t, ref, index); stats.Uploaded+stats.Mounted != 0 || stats.Bytes != 0 {
		t.Errorf("second push: %+v; want nothing sent", stats)
	}
	pulled := require.Value(base(t, c, ref, "amd64"))(t)
	imagetest.SameLayers(t, pulled.Image, amd)
	if _, stats, err := c.Push(t.Context(), server.Host+"/other/driver:1", pulled.Image); err != nil || stats.Mounted != 3 {
		t.Errorf("push to another repository: %+v, %v; want 3 blobs mounted", stats, err)
	}
	assert.ErrorContainsf(t, assert.Err(base(t, c, server.Host+"/team/driver:none", "amd64")), "404", "pull of a missing tag")

	all := []oci.Attachment{
		referrer(t, describe(t, index), "one"), referrer(t, describe(t, index), "two"), referrer(t, describe(t, amd), "three"),
		signature(t, imagetest.Digest(t, index), "payload", "a"), signature(t, imagetest.Digest(t, index), "payload", "a", "b"),
	}
	for range 2 {
		require.Value(c.Attach(t.Context(), ref, all...))(t)
	}
	got := sorted(names(t, require.Value(c.Attachments(t.Context(), ref))(t)))
	assert.Equal(t, 4, len(got))
	for range 2 {
		_, stats, err := c.Copy(t.Context(), ref, to, "alias")
		if err != nil || stats.Uploaded != 0 || stats.Attachments != 4 {
			t.Errorf("Copy = %+v, %v; want 4 attachments, and nothing sent", stats, err)
		}
		assert.Same(t, got, sorted(names(t, require.Value(c.Attachments(t.Context(), strings.TrimSuffix(to, ":1")+":alias"))(t))))
	}
	assert.Same(t, []string{"1", "alias"}, require.Value(c.ListTags(t.Context(), strings.TrimSuffix(to, ":1")))(t))
}
