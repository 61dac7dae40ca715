package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

func TestPushSendsOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ref := f.host() + "/team/driver:a"
	img := imagetest.RandomImage(t, "amd64", 1000, "one", "two")
	if got, want := mustPush(t, ref, img, "b"), (Stats{Uploaded: 3, Bytes: f.taken}); got != want || f.taken == 0 {
		t.Errorf("first push: %+v; want %+v", got, want)
	}
	f.forget()
	if got, want := mustPush(t, ref, img, "b"), (Stats{Existing: 3}); got != want {
		t.Errorf("second push: %+v; want %+v", got, want)
	}
	want := []string{"GET /v2/", "HEAD /v2/team/driver/manifests/a", "HEAD /v2/team/driver/manifests/b"}
	assert.Samef(t, want, slices.Compact(f.log), "requests of the second push (-want +got)")
	f.forget()
	if got, want := mustPush(t, f.host()+"/team/driver:c", img), (Stats{Existing: 3}); got != want {
		t.Errorf("another tag: %+v; want %+v", got, want)
	}
	if n := f.count("", "/blobs/"); n != 0 {
		t.Errorf("another tag: %d requests about blobs; want none", n)
	}
	f.forget()
	more := imagetest.RandomImage(t, "amd64", 1000, "one", "two", "three")
	if got := mustPush(t, ref, more); got.Existing != 2 || got.Uploaded != 2 {
		t.Errorf("one layer more: %+v; want 2 existing, 2 uploaded", got)
	}
}

func TestPushMounts(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	debian := imagetest.RandomImage(t, "amd64", 1000, "one", "two")
	mustPush(t, f.host()+"/library/debian:12", debian)
	named := func(name string) v1.Image {
		img, ok := mutate.Annotations(debian, map[string]string{oci.BaseNameAnnotation: name}).(v1.Image)
		if !ok {
			t.Fatal("not an image")
		}
		return img
	}
	tests := []struct {
		name  string
		img   v1.Image
		from  []string
		pull  bool
		want  Stats
		posts int
	}{
		{"pulled", debian, nil, true, Stats{Mounted: 3}, 3},
		{"annotation", named(f.host() + "/library/debian:12"), nil, false, Stats{Mounted: 3}, 3},
		{"options", debian, []string{f.host() + "/library/none", "elsewhere.example/x", f.host() + "/library/debian"}, false, Stats{Mounted: 3}, 3},
		{"annotation of another registry", named("docker.io/library/debian:12"), nil, false, Stats{Uploaded: 3}, 3},
	}
	for i, tc := range tests {
		f.forget()
		c := client(t, func(o *Options) { o.MountFrom = tc.from })
		if tc.pull {
			require.Value(base(t, c, f.host()+"/library/debian:12", "amd64"))(t)
		}
		_, got, err := c.Push(t.Context(), f.host()+"/team/"+string(rune('a'+i))+":x", tc.img)
		require.NoError(t, err)
		got.Bytes = 0
		if got != tc.want || f.count("POST", "") != tc.posts {
			t.Errorf("%s: %+v with %d POST; want %+v with %d", tc.name, got, f.count("POST", ""), tc.want, tc.posts)
		}
		if f.left() != 0 {
			t.Errorf("%s: %d uploads were left open", tc.name, f.left())
		}
	}
}

// TestPushBodyLimit: a proxy that refuses large requests ends the push, and the error says what to change.
func TestPushBodyLimit(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.failing(func(w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength <= 1<<20 {
			return false
		}
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = w.Write(bytes.Repeat([]byte("<p>"), 40<<10)) // a long page
		return true
	})
	_, _, err := client(t).Push(t.Context(), f.host()+"/x:1", imagetest.RandomImage(t, "amd64", 9<<20, "one"))
	assert.ErrorContains(t, err, "(413): raise its limit, in nginx client_max_body_size")
}

// The answer to the last request is lost: the blob is there, and nothing is sent again.
func TestPushLostAnswer(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var lost int
	f.failing(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/blobs/uploads/") {
			return false
		}
		f.mu.Lock()
		lost++
		f.mu.Unlock()
		f.inner.ServeHTTP(&discard{header: http.Header{}}, r)
		cut(w)
		return true
	})
	img := imagetest.RandomImage(t, "amd64", 1000, "one")
	got := mustPush(t, f.host()+"/x:1", img)
	if got.Uploaded != 2 || lost != 2 || f.count("PATCH", "") != 2 {
		t.Errorf("Push = %+v with %d PATCH and %d lost answers; want 2 of each", got, f.count("PATCH", ""), lost)
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func TestPushKeepsTheTagUntilAllIsThere(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ref := f.host() + "/x:1"
	old := imagetest.RandomImage(t, "amd64", 1000, "old")
	mustPush(t, ref, old)
	f.failing(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && r.ContentLength > 1000 {
			http.Error(w, "", http.StatusInternalServerError)
			return true
		}
		return false
	})
	index := imagetest.Index(t, imagetest.RandomImage(t, "amd64", 2000, "new"), imagetest.RandomImage(t, "arm64", 500, "new"))
	_, _, err := client(t).Push(t.Context(), ref, index)
	e := require.ErrorAs[*Error](t, err)
	if e.Host != f.host() || e.Op != "push" || !strings.Contains(err.Error(), "blob sha256:") || !strings.Contains(err.Error(), "500") {
		t.Errorf("error %q does not name host, blob and status", err)
	}
	assert.Equalf(t, 1, f.count("PUT", "/manifests/"), "manifests were put; want the old one only")
	got, err := client(t).Open(t.Context(), ref, OpenOptions{})
	if err != nil || got.Digest != imagetest.Digest(t, old) {
		t.Errorf("the tag is %+v, %v; want the old image", got, err)
	}
}

// A layer whose bytes do not match its digest is never committed.
func TestPushDamagedLayer(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	img := imagetest.RandomImage(t, "amd64", 1000, "one")
	require.NoError(t, oci.WriteLayout(t.Context(), t.TempDir(), "x", img))
	_, _, err := client(t).Push(t.Context(), f.host()+"/x:1", imagetest.Damaged{Image: img})
	require.ErrorAs[*fetch.MismatchError](t, err)
	assert.Equalf(t, false, errors.Is(err, fetch.ErrUnreachable), "%v is of the network; want of the content", err)
	if f.count("PUT", "") > 1 { // the config may have been faster
		t.Error("the registry was told that the layer is complete")
	}
}

func TestPushCancelled(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.failing(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			cancel()
			_, err := io.Copy(io.Discard, r.Body) // until the client disconnects
			if err == nil {
				<-r.Context().Done()
			}
			return true
		}
		return false
	})
	img := imagetest.RandomImage(t, "amd64", 8<<20, "one")
	start := time.Now()
	_, _, err := client(t).Push(ctx, f.host()+"/x:1", img)
	assert.ErrorIsf(t, err, context.Canceled, "Push")
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("stopping took %v", d)
	}
}

func TestPushTargets(t *testing.T) {
	t.Parallel()
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	digest := imagetest.Digest(t, img)
	f := newFake(t)
	if _, _, err := client(t).Push(t.Context(), f.host()+"/x@"+digest.String(), img); err != nil {
		t.Errorf("push by digest: %v", err)
	}
	for _, ref := range []string{f.host() + "/x@sha256:" + strings.Repeat("0", 64), f.host() + "/X:1", f.host() + "/x:bad tag", ""} {
		if _, _, err := client(t).Push(t.Context(), ref, img); err == nil {
			t.Errorf("Push(%q) was accepted", ref)
		}
	}
	if _, _, err := client(t).Push(t.Context(), f.host()+"/x:1", img, "no/tag"); err == nil {
		t.Error("tag no/tag was accepted")
	}
	// Offline forbids downloads. The target's registry is no source of them.
	offline := client(t, func(o *Options) { o.Offline = true })
	if _, _, err := offline.Push(t.Context(), f.host()+"/x:1", img); err != nil {
		t.Errorf("offline push: %v", err)
	}
	assert.ErrorIsf(t, assert.Err(base(t, offline, f.host()+"/x:1", "amd64")), fetch.ErrOffline, "offline pull")
}

// TestCheckPush: the answer is the registry's, and nothing is left there.
func TestCheckPush(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := client(t)
	require.NoError(t, c.CheckPush(t.Context(), f.host()+"/team/driver"))
	if f.count("POST", "/v2/team/driver/blobs/uploads/") != 1 || f.count("DELETE", "/v2/team/driver/blobs/uploads/") != 1 || f.left() != 0 {
		t.Errorf("requests %q, %d uploads left", f.log, f.left())
	}
	img := imagetest.RandomImage(t, "amd64", 10, "x")
	f.forget()
	if _, _, err := c.Push(t.Context(), f.host()+"/team/driver:1", img); err != nil {
		t.Error(err)
	}
	for code, says := range map[int]string{401: "docker login", 403: "do not allow to push to", 404: "it does not take images there", 405: "405", 500: "500"} {
		f.failing(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			w.WriteHeader(code)
			return true
		})
		f.forget()
		err := c.CheckPush(t.Context(), f.host()+"/team/driver")
		if remote := require.ErrorAs[*Error](t, err); remote == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%d: %v", code, err)
		}
		if n := f.count("POST", ""); n != map[bool]int{false: 1, true: 4}[code >= 500] {
			t.Errorf("%d: %d tries", code, n)
		}
	}
	off := client(t, func(o *Options) { o.Offline = true })
	f.failing(nil)
	require.NoError(t, off.CheckPush(t.Context(), f.host()+"/team/driver"))
	assert.ErrorContainsf(t, c.CheckPush(t.Context(), f.host()+"/team/driver:1"), "it has the tag", "with a tag")
}
