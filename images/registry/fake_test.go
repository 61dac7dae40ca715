package registry

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is go-containerregistry's registry, made strict and complete: blobs belong to repositories and can be
// mounted, a manifest needs its blobs, and tests can inject faults.
type fake struct {
	*httptest.Server
	inner  http.Handler
	strict bool // inner is strict and complete itself

	mu      sync.Mutex
	blobs   map[string]map[string][]byte // repository -> digest -> content
	log     []string                     // "METHOD path"
	taken   int64                        // bytes of PATCH bodies
	mounted int                          // blobs
	fault   func(w http.ResponseWriter, r *http.Request) bool
}

// newFake starts one without the API of referrers.
func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{blobs: map[string]map[string][]byte{}}
	f.inner = ggcr.New(ggcr.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)), ggcr.WithBlobHandler(f))
	return f.start(t)
}

// newStrict starts one with the API of referrers, whose blobs the test cannot see.
func newStrict(t *testing.T) *fake {
	t.Helper()
	f := &fake{inner: imagetest.NewRegistry(t), strict: true}
	return f.start(t)
}

func (f *fake) start(t *testing.T) *fake {
	t.Helper()
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

// left is how many uploads were neither finished nor cancelled.
func (f *fake) left() int {
	const uploads = "/blobs/uploads/"
	return f.count(http.MethodPost, uploads) - f.mounted - f.count(http.MethodPut, uploads) - f.count(http.MethodDelete, uploads)
}

func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log, f.taken, f.mounted = nil, 0, 0
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

// Put keeps a blob, which was verified.
func (f *fake) Put(_ context.Context, path string, h v1.Hash, r io.ReadCloser) error {
	b, err := io.ReadAll(r)
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.put(strings.TrimSuffix(path, "/blobs"), h.String(), b)
	}
	return err
}

func (f *fake) put(repo, digest string, b []byte) {
	if f.blobs[repo] == nil {
		f.blobs[repo] = map[string][]byte{}
	}
	f.blobs[repo][digest] = b
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.log = append(f.log, r.Method+" "+r.URL.Path)
	if r.Method == http.MethodPatch {
		f.taken += r.ContentLength
	}
	fault := f.fault
	f.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	repo, rest, isBlob := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/blobs/")
	switch {
	case f.strict:
		f.inner.ServeHTTP(w, r)
	case isBlob && r.Method == http.MethodPost && f.mount(repo, r.URL.Query()):
		w.WriteHeader(http.StatusCreated)
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

func (f *fake) mount(repo string, q url.Values) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.blobs[q.Get("from")][q.Get("mount")]
	if ok {
		f.put(repo, q.Get("mount"), b)
		f.mounted++
	}
	return ok
}

// cut closes the connection without an answer.
func cut(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// anonymous is no credentials: tests must not read those of the user who runs them.
type anonymous struct{}

func (anonymous) Resolve(authn.Resource) (authn.Authenticator, error) { return authn.Anonymous, nil }

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
	o := Options{Store: store, Attempts: 4, Backoff: time.Millisecond, Keychain: anonymous{}}
	for _, f := range change {
		f(&o)
	}
	c := require.Value(New(o))(t)
	t.Cleanup(c.Close)
	return c
}
