package importing_test

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/importing"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/registry"
)

var _ importing.Registry = (*registry.Client)(nil)

// server is go-containerregistry's registry. It answers the nth request, and all after it, with a status.
type server struct {
	*httptest.Server
	requests, failAt, status, puts, patches atomic.Int64
}

func newServer(t *testing.T, referrers bool) *server {
	t.Helper()
	s := &server{}
	inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(referrers))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at := s.failAt.Load(); s.requests.Add(1) >= at && at > 0 {
			if s.status.Load() == 0 { // the body is cut
				w.Header().Set("Content-Length", "100")
			} else {
				w.WriteHeader(int(s.status.Load()))
			}
			return
		}
		switch r.Method {
		case http.MethodPut:
			s.puts.Add(1)
		case http.MethodPatch:
			s.patches.Add(1)
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) repository() string { return strings.TrimPrefix(s.URL, "http://") + "/mirror/driver" }

type noCredentials struct{}

func (noCredentials) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.Anonymous, nil
}

func client(t *testing.T) *registry.Client {
	t.Helper()
	c := require.Value(registry.New(registry.Options{
		Store: require.Value(fetch.OpenStore(t.TempDir()))(t), Attempts: 1, Backoff: time.Millisecond, Keychain: noCredentials{},
	}))(t)
	t.Cleanup(c.Close)
	return c
}

// found checks that a client finds every item, and the attachments by the ways of the registry.
func found(t *testing.T, s *server, l *bundle.List) {
	t.Helper()
	c := client(t)
	attached := map[string]bool{}
	for _, i := range l.Items {
		repository := importing.Rename(i.Repository, l.Origin, s.repository())
		if i.Subject != nil {
			continue
		}
		for _, tag := range i.Tags {
			h := require.Value(c.Resolve(t.Context(), repository+":"+tag, ""))(t)
			assert.Equal(t, i.Descriptor.Digest, h)
		}
		for _, a := range require.Value(c.Attachments(t.Context(), repository+"@"+i.Descriptor.Digest.String()))(t) {
			attached[a.Manifest.Desc.Digest.String()] = true
		}
	}
	for _, i := range l.Items {
		if i.Subject != nil && !attached[i.Descriptor.Digest.String()] {
			t.Errorf("%s %s is not found", i.Kind, i.Descriptor.Digest)
		}
	}
}

func TestRealRegistries(t *testing.T) {
	t.Parallel()
	b := checked(t, reading.Options{}, bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t)))
	for _, referrers := range []bool{true, false} {
		s := newServer(t, referrers)
		result := require.Value(importing.Import(t.Context(), b, client(t), importing.Options{To: s.repository()}))(t)
		assert.Equal(t, len(b.List.Items), len(result.Done))
		found(t, s, b.List)
		puts := s.puts.Load()
		result = require.Value(importing.Import(t.Context(), b, client(t), importing.Options{To: s.repository()}))(t)
		assert.Equal(t, 0, result.Sent)
		assert.Equal(t, puts, s.puts.Load())
	}
}

// TestKilled lets the registry fail from the nth request on, for some n, and imports again.
func TestKilled(t *testing.T) {
	t.Parallel()
	b := checked(t, reading.Options{}, bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t)))
	statuses := []int64{0, 401, 403, 404, 413, 429, 500}
	s := newServer(t, false)
	require.Value(importing.Import(t.Context(), b, client(t), importing.Options{To: s.repository(), Jobs: 1}))(t)
	for n := int64(1); n < s.requests.Load(); n += 13 {
		broken := newServer(t, n%2 == 0)
		broken.failAt.Store(n)
		broken.status.Store(statuses[int(n/13)%len(statuses)])
		_, err := importing.Import(t.Context(), b, client(t), importing.Options{To: broken.repository(), Jobs: 1})
		if err == nil { // the referrers API saves requests
			continue
		}
		if broken.status.Load() == 404 && errors.Is(err, importing.ErrLacks) {
			t.Errorf("request %d: %v", n, err)
		}
		broken.failAt.Store(0)
		require.Value(importing.Import(t.Context(), b, client(t), importing.Options{To: broken.repository()}))(t)
		found(t, broken, b.List)
	}
}
