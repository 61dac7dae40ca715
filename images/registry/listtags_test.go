package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
)

func TestListTags(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	img := imagetest.RandomImage(t, "amd64", 100)
	c := client(t)
	for _, tag := range []string{"535-debian12", "535.261.03-debian12", "latest"} {
		if _, _, err := c.Push(t.Context(), f.host()+"/team/driver:"+tag, img); err != nil {
			t.Fatal(err)
		}
	}
	require.Value(c.Attach(t.Context(), f.host()+"/team/driver", referrer(t, describe(t, img), "x"), signature(t, imagetest.Digest(t, img), "p", "s")))(t)
	got, err := c.ListTags(t.Context(), f.host()+"/team/driver")
	if diff := cmp.Diff([]string{"535-debian12", "535.261.03-debian12", "latest"}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	var remote *Error
	if _, err = c.ListTags(t.Context(), f.host()+"/team/other"); !errors.As(err, &remote) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for _, bad := range []string{"", f.host() + "/x:1", f.host() + "/x@sha256:" + strings.Repeat("0", 64), "UPPER/x"} {
		if _, err := c.ListTags(t.Context(), bad); err == nil || errors.As(err, &remote) || !strings.Contains(err.Error(), "REGISTRY/PATH") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	off := client(t, func(o *Options) { o.Offline = true })
	assert.ErrorIsf(t, assert.Err(off.ListTags(t.Context(), f.host()+"/team/driver")), fetch.ErrOffline, "offline")
}

// TestListTagsPages: the pages follow the distribution specification, with an address relative to the server.
func TestListTagsPages(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	failed := false
	f.failing(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return false
		}
		last := r.URL.Query().Get("last")
		if last == "b" && !failed {
			failed = true
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		next := map[string]string{"": "b", "b": "d"}[last]
		w.Header().Add("Link", `</elsewhere?n=2>; rel="prev"`)
		if next != "" {
			w.Header().Add("Link", fmt.Sprintf(`<%s?n=2&last=%s>; rel="next"`, r.URL.Path, next))
		}
		fmt.Fprintf(w, `{"name":"x","tags":%s}`, map[string]string{"": `["b","a"]`, "b": `["d","c","a"]`, "d": "null"}[last])
		return true
	})
	got, err := client(t).ListTags(t.Context(), f.host()+"/x")
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
