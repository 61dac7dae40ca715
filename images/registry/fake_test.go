package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.uber.org/goleak"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is go-containerregistry's registry, made strict and complete: blobs belong to repositories and can be
// mounted, uploads can be resumed, a manifest needs its blobs, and tests can inject faults.
type fake struct {
	*httptest.Server
	inner http.Handler

	mu      sync.Mutex
	blobs   map[string]map[string][]byte // repository -> digest -> content
	uploads map[string][]byte
	serial  int
	log     []string // "METHOD path"
	taken   int64    // bytes of PATCH bodies
	fault   func(w http.ResponseWriter, r *http.Request) bool
}

func newFake(t *testing.T, options ...ggcr.Option) *fake {
	t.Helper()
	f := &fake{blobs: map[string]map[string][]byte{}, uploads: map[string][]byte{}}
	f.inner = ggcr.New(append(options, ggcr.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)), ggcr.WithBlobHandler(f))...)
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) host() string {
	return strings.TrimPrefix(f.URL, "http://")
}

// failing sets a fault, which answers a request itself and returns true, or returns false to let the request
// pass.
func (f *fake) failing(fault func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// count returns how many requests match; it does not clear the log.
func (f *fake) count(method, part string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.log {
		if strings.HasPrefix(line, method) && strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log, f.taken = nil, 0
}

func (f *fake) Get(_ context.Context, repo string, h v1.Hash) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.blobs[repo][h.String()]
	if !ok {
		return nil, ggcr.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (f *fake) put(repo string, b []byte) {
	if f.blobs[repo] == nil {
		f.blobs[repo] = map[string][]byte{}
	}
	f.blobs[repo][oci.HashOf(b).String()] = b
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.log = append(f.log, r.Method+" "+r.URL.Path)
	fault := f.fault
	f.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	repo, rest, isBlob := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/blobs/")
	id, isUpload := strings.CutPrefix(rest, "uploads/")
	switch {
	case isBlob && isUpload:
		f.upload(w, r, repo, id)
	case isBlob && r.Method == http.MethodGet:
		f.blob(w, r, repo, rest)
	case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") && !f.complete(r):
		http.Error(w, `{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN","message":"blob unknown to registry"}]}`, http.StatusBadRequest)
	default:
		f.inner.ServeHTTP(w, r)
	}
}

// complete reports whether the repository has all blobs of the manifest in the request.
func (f *fake) complete(r *http.Request) bool {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil || m.Config.Digest == (v1.Hash{}) {
		return true
	}
	repo := strings.TrimPrefix(path.Dir(path.Dir(r.URL.Path)), "/v2/")
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range append(m.Layers, m.Config) {
		if _, ok := f.blobs[repo][d.Digest.String()]; !ok {
			return false
		}
	}
	return true
}

func (f *fake) blob(w http.ResponseWriter, r *http.Request, repo, digest string) {
	f.mu.Lock()
	b, ok := f.blobs[repo][digest]
	f.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"`+digest+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
}

func (f *fake) upload(w http.ResponseWriter, r *http.Request, repo, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	have, known := f.uploads[id]
	if r.Method != http.MethodPost && !known {
		http.Error(w, `{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN"}]}`, http.StatusNotFound)
		return
	}
	status := http.StatusAccepted
	switch r.Method {
	case http.MethodPost:
		q := r.URL.Query()
		if b, ok := f.blobs[q.Get("from")][q.Get("mount")]; ok {
			f.put(repo, b)
			w.WriteHeader(http.StatusCreated)
			return
		}
		f.serial++
		id = fmt.Sprint(f.serial)
		f.uploads[id] = nil
	case http.MethodPatch:
		if cr := r.Header.Get("Content-Range"); (len(have) > 0 || cr != "") && !strings.HasPrefix(cr, fmt.Sprintf("%d-", len(have))) {
			http.Error(w, "", http.StatusRequestedRangeNotSatisfiable)
			return
		}
		f.mu.Unlock()
		b, err := io.ReadAll(r.Body)
		f.mu.Lock()
		f.taken += int64(len(b))
		f.uploads[id] = append(f.uploads[id], b...)
		if err != nil {
			return
		}
	case http.MethodPut:
		if oci.HashOf(have).String() != r.URL.Query().Get("digest") {
			http.Error(w, `{"errors":[{"code":"DIGEST_INVALID"}]}`, http.StatusBadRequest)
			return
		}
		f.put(repo, have)
		delete(f.uploads, id)
		w.WriteHeader(http.StatusCreated)
		return
	case http.MethodDelete:
		delete(f.uploads, id)
		status = http.StatusNoContent
	case http.MethodGet:
		status = http.StatusNoContent
	}
	w.Header().Set("Location", path.Join("/v2", repo, "blobs/uploads", id)) // relative, as the standard allows
	if n := len(f.uploads[id]); n > 0 {
		w.Header().Set("Range", fmt.Sprintf("0-%d", n-1))
	}
	w.WriteHeader(status)
}

// cut closes the connection without an answer.
func cut(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// anonymous is no credentials: tests must not read those of the user who runs them.
func anonymous(context.Context, string, string) (auth.Credential, error) {
	return auth.EmptyCredential, nil
}

// base opens an image with all its layers.
func base(t *testing.T, c *Client, ref, arch string) (*Opened, error) {
	t.Helper()
	return c.Open(t.Context(), ref, OpenOptions{Arch: arch, Part: Layers})
}

// artifact opens an artifact as it is.
func artifact(t *testing.T, c *Client, ref string) (oci.Artifact, error) {
	t.Helper()
	opened, err := c.Open(t.Context(), ref, OpenOptions{})
	if err != nil {
		return nil, err
	}
	return opened.Artifact, nil
}

// mustPush pushes with a new client.
func mustPush(t *testing.T, ref string, a oci.Artifact, tags ...string) Stats {
	t.Helper()
	got, stats, err := client(t).Push(t.Context(), ref, a, tags...)
	require.NoError(t, err)
	if want := imagetest.Digest(t, a); got != want {
		t.Fatalf("Push = %s; want %s", got, want)
	}
	return stats
}

// client returns a client with short pauses and a store of its own.
func client(t *testing.T, change ...func(*Options)) *Client {
	t.Helper()
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	o := Options{Store: store, Attempts: 4, Backoff: time.Millisecond, Credentials: anonymous}
	for _, f := range change {
		f(&o)
	}
	c := require.Value(New(o))(t)
	t.Cleanup(c.Close)
	return c
}
