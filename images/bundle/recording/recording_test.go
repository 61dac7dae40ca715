package recording_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/inputs"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/bundle/recording"
	"github.com/driver-container/driver-container/images/bundle/writing"
	"github.com/driver-container/driver-container/images/oci"
)

// TestTransport records whole answers under the address that was asked for, and nothing else.
func TestTransport(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/debian/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "/debian/none":
			http.NotFound(w, r)
		case "/debian/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "cut")
		default:
			_, _ = io.WriteString(w, "content of "+r.URL.Path)
		}
	}))
	defer s.Close()
	dir := t.TempDir()
	client := http.Client{Transport: &recording.Transport{Dir: dir}}
	for _, address := range []string{"/debian/dists/x/InRelease", "/debian/moved", "/debian/none", "/debian/cut", "/list?repo=x", "/debian/a%20b", "/debian/pool/a_1%3a2+b~c.deb"} {
		r := require.Value(client.Get(s.URL + address))(t)
		_, _ = io.Copy(io.Discard, r.Body) // one of them is cut
		r.Body.Close()
	}
	r := require.Value(client.Get(s.URL + "/debian/half"))(t)
	require.Value(io.ReadFull(r.Body, make([]byte, 3)))(t)
	r.Body.Close()
	var got []string
	host := strings.ReplaceAll(strings.TrimPrefix(s.URL, "http://"), ":", "-")
	for _, f := range require.Value(recording.Files(t.Context(), dir))(t) {
		got = append(got, strings.TrimPrefix(f.Desc.Annotations[bundle.TitleAnnotation], host+"/debian/"))
	}
	assert.Same(t, []string{"dists/x/InRelease", "moved", "pool/a_1:2+b~c.deb"}, got)
	assert.Equal(t, "content of /elsewhere", string(require.Value(os.ReadFile(filepath.Join(dir, host, "debian/moved")))(t)))
}

// mirrorBundle makes a bundle with a mirror that has one file.
func mirrorBundle(t *testing.T, title string) *reading.Bundle {
	t.Helper()
	file := oci.BytesBlob("application/octet-stream", []byte("content"), map[string]string{bundle.TitleAnnotation: title})
	a := writing.Artifact{Kind: bundle.Headers, Repository: bundletest.Origin + "/headers", Tags: []string{"files"}}
	a.Content = require.Value(inputs.Artifact([]oci.Blob{file}))(t)
	raw := bundletest.Bytes(t, bundletest.Options(), append(bundletest.Artifacts(t), a))
	b, findings, err := reading.Check(t.Context(), bundletest.Source("b.tar", raw), reading.Options{})
	require.NoError(t, err)
	require.NoError(t, bundle.Unsound(findings))
	return b
}

// TestHostile: no link in the folder leads out of it.
func TestHostile(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "host")))
	assert.Errorf(t, recording.Extract(t.Context(), mirrorBundle(t, "host/debian/x"), dir), "a link that leads out")
	assert.Equal(t, 0, len(require.Value(os.ReadDir(outside))(t)))
	assert.ErrorContains(t, inputs.Complete(withoutMirror(t), bundle.Headers), "bundle create --headers")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir = t.TempDir()
	assert.ErrorIs(t, recording.Extract(ctx, mirrorBundle(t, "host/x"), dir), context.Canceled)
	assert.Equal(t, 0, len(require.Value(os.ReadDir(filepath.Join(dir, "host")))(t)))
	require.NoError(t, recording.Extract(t.Context(), mirrorBundle(t, "host/x"), dir))
	assert.Equal(t, "content", string(require.Value(os.ReadFile(filepath.Join(dir, "host/x")))(t)))
}

// withoutMirror is a bundle without a mirror.
func withoutMirror(t *testing.T) *reading.Bundle {
	t.Helper()
	return require.Value(reading.Load(bundletest.Source("b.tar", bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t)))))(t)
}
