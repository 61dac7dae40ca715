package importing_test

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/importing"
	"github.com/driver-container/driver-container/images/bundle/reading"
)

const site = "registry.site:5000/mirror/driver"

// checked verifies a bundle.
func checked(t testing.TB, o reading.Options, raw []byte) *reading.Bundle {
	t.Helper()
	b, findings, err := reading.Check(t.Context(), bundletest.Source("b.tar", raw), o)
	require.NoError(t, err)
	require.NoError(t, bundle.Unsound(findings))
	return b
}

// complete says that a registry has every item of a list under its names.
func complete(t *testing.T, f *fake, l *bundle.List) {
	t.Helper()
	for _, i := range l.Items {
		repository := importing.Rename(i.Repository, l.Origin, site)
		for _, name := range append([]string{i.Descriptor.Digest.String()}, i.Tags...) {
			if f.manifests[key(repository, name)] == nil {
				t.Errorf("%s is missing", key(repository, name))
			}
		}
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t))
	b, f := checked(t, reading.Options{}, raw), newFake()
	result := require.Value(importing.Import(t.Context(), b, f, importing.Options{To: site, DryRun: true}))(t)
	assert.Equal(t, 0, len(f.blobs)+len(f.manifests))
	assert.Equal(t, len(b.List.Items), len(result.Done))
	result = require.Value(importing.Import(t.Context(), b, f, importing.Options{To: site}))(t)
	complete(t, f, b.List)
	assert.Equal(t, f.sent, result.Sent)
	for _, name := range []string{site + ":550.1-debian12", site + "/charts/nvidia-driver:0.2.0", site + "/docker.io/library/debian:12-slim"} {
		if f.manifests[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	for n, name := range f.log { // tags of images come after everything else
		if strings.Contains(name, "debian12") && n < len(f.log)-5 {
			t.Errorf("%s is number %d of %d", name, n, len(f.log))
		}
	}
	sent := f.sent
	result = require.Value(importing.Import(t.Context(), b, f, importing.Options{To: site}))(t)
	assert.Equal(t, 0, result.Sent)
	assert.Equal(t, sent, f.sent)
}

// TestStopped stops the registry at each of its calls, and imports again.
func TestStopped(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t))
	b := checked(t, reading.Options{}, raw)
	for n := 1; ; n++ {
		f := newFake()
		f.failAt = n
		_, err := importing.Import(t.Context(), b, f, importing.Options{To: site, Jobs: 1})
		if err == nil {
			break
		}
		assert.ErrorIs(t, err, errStopped)
		for name, raw := range f.manifests { // what has a name is whole: the fake refuses anything else
			if raw == nil {
				t.Errorf("%s is empty", name)
			}
		}
		f.failAt = 0
		require.Value(importing.Import(t.Context(), b, f, importing.Options{To: site}))(t)
		complete(t, f, b.List)
	}
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	b := checked(t, reading.Options{}, bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t)))
	f := newFake()
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			assert.NoError(t, assert.Err(importing.Import(t.Context(), b, f, importing.Options{To: site})))
		})
	}
	both.Wait()
	complete(t, f, b.List)
}

func TestAbsent(t *testing.T) {
	t.Parallel()
	artifacts := bundletest.Artifacts(t)
	old := checked(t, reading.Options{}, bundletest.Bytes(t, bundletest.Options(), artifacts[:2]))
	o := bundletest.Options()
	o.Since = []bundle.Stock{require.Value(bundle.DecodeStock(old.Raw))(t)}
	b := checked(t, reading.Options{}, bundletest.Bytes(t, o, artifacts))
	f := newFake()
	_, err := importing.Import(t.Context(), b, f, importing.Options{To: site})
	assert.ErrorIs(t, err, importing.ErrLacks)
	assert.ErrorIs(t, err, fetch.ErrUnreachable)
	assert.ErrorContains(t, err, "MB that "+old.Manifest.Digest.String()+" has")
	assert.Equal(t, 0, len(f.blobs)+len(f.manifests))
	require.Value(importing.Import(t.Context(), old, f, importing.Options{To: site}))(t)
	require.Value(importing.Import(t.Context(), b, f, importing.Options{To: site}))(t)
	complete(t, f, b.List)
}

// TestPipe imports whole bundles, and ones that are cut off: these leave no name behind.
func TestPipe(t *testing.T) {
	t.Parallel()
	raw := bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t))
	for cut := len(raw); cut > 0; cut -= 509 {
		f := newFake()
		s, err := reading.Open(t.Context(), bytes.NewReader(raw[:cut]), reading.Options{})
		if err == nil {
			_, err = importing.Stream(t.Context(), s, f, importing.Options{To: site})
		}
		if cut == len(raw) {
			require.NoError(t, err)
			complete(t, f, s.List)
			continue
		}
		assert.ErrorIsf(t, err, bundle.ErrUnsound, "cut at %d", cut)
		assert.Equalf(t, 0, len(f.manifests), "cut at %d", cut)
	}
	raw = bytes.Replace(raw, []byte("layer of three"), []byte("layer of thr33"), 1)
	s := require.Value(reading.Open(t.Context(), bytes.NewReader(raw), reading.Options{}))(t)
	_, err := importing.Stream(t.Context(), s, newFake(), importing.Options{To: site})
	assert.ErrorContains(t, err, "it is damaged: copy it from its origin again")
}

func TestTexts(t *testing.T) {
	t.Parallel()
	b := checked(t, reading.Options{}, bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t)))
	r := require.Value(importing.Import(t.Context(), b, newFake(), importing.Options{To: site}))(t)
	refs := strings.Join(r.References(), "\n")
	assert.Contains(t, refs, site+":550.1-debian12@sha256:")
	assert.Contains(t, refs, site+"/charts/nvidia-driver:0.2.0@sha256:")
	assert.Contains(t, r.Values("pull"), "  repository: "+site+"\n")
	assert.Contains(t, r.Values("pull"), "  pullSecrets: [pull]")
	one := importing.Result{Done: r.Done[1:2]}
	assert.Contains(t, one.Values(""), "  digest: sha256:")
	for _, origin := range []string{"", bundletest.Origin} {
		for name, text := range require.Value(importing.Policies(origin, site, ed25519.PublicKey(make([]byte, ed25519.PublicKeySize))))(t) {
			var document map[string]any
			require.NoErrorf(t, yaml.Unmarshal([]byte(text), &document), "%s: %s", name, text) // JSON is YAML
			assert.Contains(t, text, site)
			assert.Equalf(t, origin != "" && (name == "policy.json" || name == "openshift.yaml"), strings.Contains(text, bundletest.Origin), "%s", name)
		}
	}
}
