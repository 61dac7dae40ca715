package bundle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/bundletest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
)

// TestThere takes files, downloads and a base image to another machine.
func TestThere(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(from, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	lock, program, cached := file("matrix.lock", "a lock", 0o600), file("program", "a program", 0o700), file("a blob", "a package", 0o600)
	base := "oci:" + filepath.Join(from, "layout") + ":1"
	content := bundletest.Image(t, "a base")
	require.NoError(t, oci.WriteLayout(t.Context(), filepath.Join(from, "layout"), "1", bundletest.Layers(t, "a base")))
	sum, sum512 := sha256.Sum256([]byte("a package")), sha512.Sum512([]byte("a package"))
	selection := bundle.Selection{Origin: bundletest.Origin, FileTag: "files", Images: []string{base}, Files: []bundle.File{{Path: lock}, {Path: program}, {Path: lock}}}
	selection.Fetched = fmt.Sprintf("%s %s\nsha256:%x %s http://a/x.deb\nsha512:%x %s http://a/y.rpm?z\n", content.Top().Desc.Digest, base, sum, cached, sum512, cached)
	artifacts := require.Value(bundle.Gather(t.Context(), client(t), selection))(t)
	raw := bundletest.Bytes(t, bundletest.Options(t), artifacts)
	slices.Reverse(selection.Files)
	again := bundletest.Bytes(t, bundletest.Options(t), require.Value(bundle.Gather(t.Context(), client(t), selection))(t))
	assert.Equalf(t, true, bytes.Equal(raw, again), "the same bytes")

	b, store := bundletest.Open(t, raw), require.Value(fetch.OpenStore(t.TempDir()))(t)
	require.NoError(t, b.Complete(bundle.Inputs))
	require.NoError(t, b.Adopt(t.Context(), store))
	for _, h := range []string{fmt.Sprintf("%x", sum), fmt.Sprintf("%x", sum512), content.Top().Desc.Digest.Hex, content.Blobs[0].Desc.Digest.Hex} {
		assert.Equal(t, true, store.Has(h))
	}
	assert.Equal(t, false, store.Has(oci.HashOf([]byte("a lock")).Hex))
	dir := t.TempDir()
	for range 2 { // also over what is there
		require.NoError(t, b.Extract(t.Context(), bundle.Inputs, dir))
	}
	assert.Equal(t, 2, len(require.Value(os.ReadDir(dir))(t)))
	assert.Equal(t, "a lock", string(require.Value(os.ReadFile(filepath.Join(dir, "matrix.lock")))(t)))
	for name, executable := range map[string]bool{"matrix.lock": false, "program": true} {
		info := require.Value(os.Stat(filepath.Join(dir, name)))(t)
		assert.Equalf(t, executable, info.Mode()&0o111 != 0, "%s", name)
	}
	for _, line := range []string{"what is this", "sha256:x", "sha256:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("a", 64) + " /none/x http://a/b", "x /none/x http://a/b"} {
		selection.Fetched = line
		assert.Errorf(t, assert.Err(bundle.Gather(t.Context(), client(t), selection)), "%q", line)
	}
	selection.Fetched, selection.Files = "", []bundle.File{{Path: from}}
	assert.ErrorContains(t, assert.Err(bundle.Gather(t.Context(), client(t), selection)), "not a regular file")
}

// TestPaths: what cannot be written, or would be written over another file, is found by the one check that
// bundle create, verify and import have in common; everything else is written where its path says.
func TestPaths(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		kind  bundle.ItemKind
		good  bool
		paths []string
	}{
		{bundle.Inputs, true, []string{"patches/535/x.patch", "patches/535/y.patch", "1/2/3/4/5/6/7/8/x", "matrix.yaml", long}},
		{bundle.Inputs, false, []string{"matrix.yaml", "patches/x", "matrix.yaml"}},
		{bundle.Inputs, false, []string{"patches", "patches/535/x"}},
		{bundle.Headers, true, []string{"host-80/debian/a_1:2+b~c@d^e=f,g.deb", "host/x"}},
		{bundle.Headers, false, []string{"host/x", "host/y", "host/x"}},
		{bundle.Headers, false, []string{"host/x", "host/x/y"}},
	} {
		dir, err := imported(t, c.kind, c.paths)
		if !c.good {
			assert.Errorf(t, err, "%s %q", c.kind, c.paths)
			continue
		}
		require.NoErrorf(t, err, "%s %q", c.kind, c.paths)
		for n, p := range c.paths {
			assert.Equal(t, fmt.Sprint(n), string(require.Value(os.ReadFile(filepath.Join(dir, p)))(t)))
		}
	}
	for kind, bad := range map[bundle.ItemKind][]string{
		bundle.Inputs:  {"", "..", "../x", "/x", "x/", "a//b", "a/../x", ".git/x", "a/.x", `a\..\x`, "a b", "a\n", "a:b", "1/2/3/4/5/6/7/8/9/x", long + "x"},
		bundle.Headers: {"", "a", "../a/b", "a/../b", "/a/b", "a//b", "a/.b", "a/b\x00", "a/" + long + "x", strings.Repeat("a/", 40) + "b", `a\b/c`, "a/-b"},
	} {
		for _, p := range bad {
			_, err := imported(t, kind, []string{"good/x", p})
			assert.Errorf(t, err, "%s %q", kind, p)
		}
	}
}

// imported makes a bundle of files, whose contents are their numbers, and writes them into a folder.
func imported(t *testing.T, kind bundle.ItemKind, paths []string) (dir string, err error) {
	t.Helper()
	artifact := bundle.Artifact{Kind: kind, Repository: bundletest.Origin, Content: filesArtifact(t, paths...)}
	plan, err := bundle.Prepare(t.Context(), bundletest.Options(t), []bundle.Artifact{artifact})
	if err != nil {
		assert.Equal(t, failure.Usage, failure.KindOf(err))
		return "", err
	}
	var raw bytes.Buffer
	require.NoError(t, plan.Write(t.Context(), &raw, nil))
	b := bundletest.Open(t, raw.Bytes())
	require.NoError(t, b.Complete(kind))
	dir = t.TempDir()
	return dir, b.Extract(t.Context(), kind, dir)
}

// TestRecorder records whole answers under the address that was asked for, and nothing else.
func TestRecorder(t *testing.T) {
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
	client := http.Client{Transport: &bundle.Recorder{Dir: dir}}
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
	content := require.Value(bundle.Mirror(t.Context(), bundletest.Origin, "files", dir))(t).Content
	for _, f := range content.Blobs[:len(content.Blobs)-1] {
		got = append(got, strings.TrimPrefix(f.Desc.Annotations[bundle.TitleAnnotation], host+"/debian/"))
	}
	assert.Same(t, []string{"dists/x/InRelease", "moved", "pool/a_1:2+b~c.deb"}, got)
	assert.Equal(t, "content of /elsewhere", string(require.Value(os.ReadFile(filepath.Join(dir, host, "debian/moved")))(t)))
}

// TestHostile: no link in the folder leads out of it, and nothing half remains.
func TestHostile(t *testing.T) {
	t.Parallel()
	mirror := bundle.Artifact{Kind: bundle.Headers, Repository: bundletest.Origin + "/headers", Content: filesArtifact(t, "host/x")}
	b := bundletest.Open(t, bundletest.Bytes(t, bundletest.Options(t), []bundle.Artifact{mirror}))
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "host")))
	assert.Errorf(t, b.Extract(t.Context(), bundle.Headers, dir), "a link that leads out")
	assert.Equal(t, 0, len(require.Value(os.ReadDir(outside))(t)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir = t.TempDir()
	assert.ErrorIs(t, b.Extract(ctx, bundle.Headers, dir), context.Canceled)
	assert.Equal(t, 0, len(require.Value(os.ReadDir(filepath.Join(dir, "host")))(t)))
	dir = t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "host/x/y"), 0o700))
	assert.Errorf(t, b.Extract(t.Context(), bundle.Headers, dir), "a folder in the file's place")
	assert.Equal(t, 1, len(require.Value(os.ReadDir(filepath.Join(dir, "host")))(t)))
	without := bundletest.Open(t, bundletest.Bytes(t, bundletest.Options(t), bundletest.Artifacts(t)))
	assert.ErrorContains(t, without.Complete(bundle.Headers), "bundle create --headers")
}

// filesArtifact returns the content of an artifact of files with these paths, whose contents are their
// numbers.
func filesArtifact(t testing.TB, paths ...string) *oci.Content {
	t.Helper()
	c := &oci.Content{}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	for n, p := range paths {
		b := oci.BytesBlob("application/octet-stream", fmt.Append(nil, n), map[string]string{bundle.TitleAnnotation: p})
		c.Blobs = append(c.Blobs, b)
		m.Layers = append(m.Layers, b.Desc)
	}
	config := oci.BytesBlob(oci.EmptyConfig, []byte("{}"), nil)
	c.Blobs = append(c.Blobs, config)
	m.Config = config.Desc
	raw := require.Value(json.Marshal(m))(t)
	c.Documents = []oci.Document{oci.NewDocument(raw, m.MediaType)}
	return c
}
