package bundle_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/bundletest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/registry"
)

// server is a registry: a strict one with the referrers API, or that of go-containerregistry. It answers the nth
// request, and all after it, with a status.
type server struct {
	*httptest.Server
	requests, failAt, status, puts, patches, manifests atomic.Int64
}

func newServer(t *testing.T, referrers bool) *server {
	t.Helper()
	s := &server{}
	inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	if referrers {
		inner = imagetest.NewRegistry(t)
	}
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
			if strings.Contains(r.URL.Path, "/manifests/") {
				s.manifests.Add(1)
			}
		case http.MethodPatch:
			s.patches.Add(1)
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) repository() string { return strings.TrimPrefix(s.URL, "http://") + "/mirror/driver" }

// anonymous is no credentials: tests must not read those of the user who runs them.
type anonymous struct{}

func (anonymous) Resolve(authn.Resource) (authn.Authenticator, error) { return authn.Anonymous, nil }

func client(t *testing.T) *registry.Client {
	t.Helper()
	c := require.Value(registry.New(registry.Options{
		Store: require.Value(fetch.OpenStore(t.TempDir()))(t), Attempts: 1, Backoff: time.Millisecond, Keychain: anonymous{},
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
		repository := bundle.Rename(i.Repository, l.Origin, s.repository())
		if i.Subject != nil {
			continue
		}
		for _, tag := range i.Tags {
			h := require.Value(c.Open(t.Context(), repository+":"+tag, registry.OpenOptions{}))(t).Digest
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

func (s *server) importAll(t *testing.T, b *bundle.Bundle) (*bundle.Result, error) {
	t.Helper()
	return b.Import(t.Context(), client(t), bundle.ImportOptions{To: s.repository(), Jobs: 1})
}

// TestImport asks, imports twice at once into registries of both kinds, and again what is there.
func TestImport(t *testing.T) {
	t.Parallel()
	b := bundletest.Open(t, bundletest.Bytes(t, bundletest.Options(t), bundletest.Artifacts(t)))
	for _, referrers := range []bool{true, false} {
		s := newServer(t, referrers)
		result := require.Value(b.Import(t.Context(), client(t), bundle.ImportOptions{To: s.repository(), DryRun: true}))(t)
		assert.Equal(t, int64(0), s.puts.Load()+s.patches.Load())
		assert.Equal(t, len(b.List.Items), len(result.Done))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { assert.NoError(t, assert.Err(s.importAll(t, b))) })
		}
		both.Wait()
		found(t, s, b.List)
		puts := s.puts.Load()
		result = require.Value(b.Import(t.Context(), client(t), bundle.ImportOptions{To: s.repository()}))(t)
		assert.Equal(t, 0, result.Sent)
		assert.Equal(t, puts, s.puts.Load())
	}
}

// TestKilled lets the registry fail from the nth request on, for some n, and imports again. What has a name is whole at
// any time: the registry refuses a manifest without its blobs, and tags of images come last.
func TestKilled(t *testing.T) {
	t.Parallel()
	b := bundletest.Open(t, bundletest.Bytes(t, bundletest.Options(t), bundletest.Artifacts(t)))
	statuses := []int64{0, 401, 403, 404, 413, 429, 500}
	s := newServer(t, false)
	require.Value(s.importAll(t, b))(t)
	for n := int64(1); n < s.requests.Load(); n += 13 {
		broken := newServer(t, n%2 == 0)
		broken.failAt.Store(n)
		broken.status.Store(statuses[int(n/13)%len(statuses)])
		if _, err := broken.importAll(t, b); err == nil { // the referrers API saves requests
			continue
		} else if broken.status.Load() == 404 && errors.Is(err, bundle.ErrLacks) {
			t.Errorf("request %d: %v", n, err)
		}
		broken.failAt.Store(0)
		require.Value(b.Import(t.Context(), client(t), bundle.ImportOptions{To: broken.repository()}))(t)
		found(t, broken, b.List)
	}
}

func TestAbsent(t *testing.T) {
	t.Parallel()
	artifacts := bundletest.Artifacts(t)
	old := bundletest.Open(t, bundletest.Bytes(t, bundletest.Options(t), artifacts[:2]))
	o := bundletest.Options(t)
	o.Since = []bundle.Stock{require.Value(bundle.DecodeStock(old.Raw))(t)}
	raw := bundletest.Bytes(t, o, artifacts)
	s := newServer(t, true)
	for _, b := range []*bundle.Bundle{bundletest.Open(t, raw), require.Value(bundle.Open(bytes.NewReader(raw)))(t)} {
		_, err := s.importAll(t, b)
		assert.ErrorIs(t, err, bundle.ErrLacks)
		assert.Equal(t, failure.Network, failure.KindOf(err))
		assert.ErrorContains(t, err, "MB that "+old.Manifest.Digest.String()+" has")
		assert.Equal(t, int64(0), s.puts.Load()+s.patches.Load())
	}
	require.Value(s.importAll(t, old))(t)
	b := require.Value(bundle.Open(bytes.NewReader(raw)))(t)
	require.Value(s.importAll(t, b))(t)
	found(t, s, b.List)
}

// TestPipe imports whole bundles, and ones that are cut off or damaged: these leave no name behind.
func TestPipe(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(t), bundletest.Artifacts(t))
	for cut := len(raw); cut > len(raw)/2; cut -= 1021 {
		s := newServer(t, true)
		b, err := bundle.Open(bytes.NewReader(raw[:cut]))
		if err == nil {
			_, err = s.importAll(t, b)
		}
		if cut == len(raw) {
			require.NoError(t, err)
			found(t, s, b.List)
			continue
		}
		assert.ErrorIsf(t, err, bundle.ErrUnsound, "cut at %d", cut)
		assert.Equalf(t, int64(0), s.manifests.Load(), "cut at %d", cut)
	}
	raw = bytes.Replace(raw, []byte("layer of three"), []byte("layer of thr33"), 1)
	s := newServer(t, true)
	_, err := s.importAll(t, require.Value(bundle.Open(bytes.NewReader(raw)))(t))
	assert.ErrorContains(t, err, "it is damaged: copy it from its origin again")
	assert.Equal(t, int64(0), s.manifests.Load())
}

func TestTexts(t *testing.T) {
	t.Parallel()
	b := bundletest.Open(t, bundletest.Bytes(t, bundletest.Options(t), bundletest.Artifacts(t)))
	s := newServer(t, true)
	r, site := require.Value(s.importAll(t, b))(t), s.repository()
	refs := strings.Join(r.References(), "\n")
	assert.Contains(t, refs, site+":550.1-debian12@sha256:")
	assert.Contains(t, refs, site+"/charts/nvidia-driver:0.2.0@sha256:")
	assert.Contains(t, r.Values("pull"), "  repository: "+site+"\n")
	assert.Contains(t, r.Values("pull"), "  pullSecrets: [pull]")
	one := bundle.Result{Done: r.Done[1:2]}
	assert.Contains(t, one.Values(""), "  digest: sha256:")
	one.Done[0].Tags = []string{"550.1-6.1.0-56-amd64-debian12-modules"}
	assert.Equal(t, "moduleImages:\n  - "+site+":"+one.Done[0].Tags[0]+"@"+one.Done[0].Descriptor.Digest.String()+"\nimage:\n  repository: "+site+"\n", one.Values(""))
	for _, origin := range []string{"", bundletest.Origin} {
		for name, text := range require.Value(bundle.Policies(origin, site, ed25519.PublicKey(make([]byte, ed25519.PublicKeySize))))(t) {
			var document map[string]any
			require.NoErrorf(t, yaml.Unmarshal([]byte(text), &document), "%s: %s", name, text) // JSON is YAML
			assert.Contains(t, text, site)
			assert.Equalf(t, origin != "" && (name == "policy.json" || name == "openshift.yaml"), strings.Contains(text, bundletest.Origin), "%s", name)
		}
	}
	files := require.Value(bundle.Policies("", "docker.io/acme/driver", ed25519.PublicKey(make([]byte, ed25519.PublicKeySize))))(t)
	assert.Contains(t, files["policy-controller.yaml"], "{glob: index.docker.io/acme/driver**}")
	assert.Contains(t, files["openshift.yaml"], "scopes: [docker.io/acme/driver]")
}
