package inputs_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/inputs"
	"github.com/driver-container/driver-container/images/bundle/reading"
	"github.com/driver-container/driver-container/images/bundle/recording"
	"github.com/driver-container/driver-container/images/bundle/writing"
	"github.com/driver-container/driver-container/images/oci"
)

func written(t *testing.T, name, text string) oci.Blob {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return require.Value(inputs.FromFile(t.Context(), path))(t)
}

// TestThere takes files, downloads and a base image to another machine.
func TestThere(t *testing.T) {
	t.Parallel()
	lock, matrix := written(t, "matrix.lock", "a lock"), written(t, "matrix.yaml", "a matrix")
	path := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(path, []byte("a program"), 0o700)) //nolint:gosec // a program
	program := require.Value(inputs.FromFile(t.Context(), path))(t)
	cache := filepath.Join(t.TempDir(), "a blob")
	require.NoError(t, os.WriteFile(cache, []byte("a package"), 0o600))
	sum, sum512 := sha256.Sum256([]byte("a package")), sha512.Sum512([]byte("a package"))
	bases, files, err := inputs.Fetched(t.Context(), fmt.Sprintf("sha256:%x docker.io/library/debian:12@x\nsha256:%x %s http://a/x.deb\nsha512:%x %s http://a/y.rpm?z\n",
		sum, sum, cache, sum512, cache))
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("docker.io/library/debian:12@sha256:%x", sum), bases[0].Ref)
	one := require.Value(inputs.Artifact(append(files, lock, program, matrix, lock)))(t)
	two := require.Value(inputs.Artifact(append([]oci.Blob{matrix, lock, program}, files...)))(t)
	assert.Equal(t, one.Top().Desc.Digest, two.Top().Desc.Digest)

	artifacts := append(bundletest.Artifacts(t)[3:], writing.Artifact{Kind: bundle.Inputs, Repository: bundletest.Origin + "/inputs", Tags: []string{"debian12"}, Content: one})
	raw := bundletest.Bytes(t, bundletest.Options(), artifacts)
	b := require.Value(reading.Load(bundletest.Source("b.tar", raw)))(t)
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	require.Value(inputs.Adopt(t.Context(), b, store))(t)
	assert.Equal(t, 0, require.Value(inputs.Adopt(t.Context(), b, store))(t))
	base := artifacts[0].Content
	for _, h := range []string{fmt.Sprintf("%x", sum), fmt.Sprintf("%x", sum512), base.Top().Desc.Digest.Hex, base.Blobs[0].Desc.Digest.Hex} {
		assert.Equal(t, true, store.Has(h))
	}
	assert.Equal(t, false, store.Has(lock.Desc.Digest.Hex))
	dir := t.TempDir()
	assert.Equal(t, 3, len(require.Value(inputs.Extract(t.Context(), b, dir))(t)))
	assert.Equal(t, "a lock", string(require.Value(os.ReadFile(filepath.Join(dir, "matrix.lock")))(t)))
	for name, executable := range map[string]bool{"matrix.lock": false, "program": true} {
		info := require.Value(os.Stat(filepath.Join(dir, name)))(t)
		assert.Equalf(t, executable, info.Mode()&0o111 != 0, "%s", name)
	}
}

// TestPaths: what cannot be written, or would be written over another file, is found by the one check that
// bundle create, verify and import have in common; everything else is written where its path says.
func TestPaths(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		kind  bundle.Kind
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
	for kind, bad := range map[bundle.Kind][]string{
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
func imported(t *testing.T, kind bundle.Kind, paths []string) (dir string, err error) {
	t.Helper()
	var files []oci.Blob
	for n, p := range paths {
		files = append(files, oci.BytesBlob("application/octet-stream", fmt.Append(nil, n), map[string]string{bundle.TitleAnnotation: p}))
	}
	content := require.Value(inputs.Artifact(files))(t)
	l := bundle.List{Origin: bundletest.Origin, Items: []bundle.Item{{Kind: kind, Repository: bundletest.Origin, Descriptor: content.Top().Desc}}}
	for _, f := range files {
		l.Blobs = append(l.Blobs, bundle.Blob{Digest: f.Desc.Digest, Size: f.Desc.Size})
	}
	l.Documents = []bundle.Blob{{Digest: content.Top().Desc.Digest, Size: content.Top().Desc.Size}}
	faults := l.CheckDocuments(map[v1.Hash][]byte{content.Top().Desc.Digest: content.Top().Raw})
	plan, err := writing.Prepare(t.Context(), bundletest.Options(), []writing.Artifact{{Kind: kind, Repository: bundletest.Origin, Content: content}})
	assert.Equalf(t, len(faults) == 0, err == nil, "verify finds %q, and create %v", faults, err)
	if err != nil {
		var refused *bundle.SelectionError
		assert.Equalf(t, true, errors.As(err, &refused), "%v", err)
		return "", err
	}
	var raw bytes.Buffer
	require.NoError(t, plan.Write(t.Context(), &raw, nil))
	b := require.Value(reading.Load(bundletest.Source("b.tar", raw.Bytes())))(t)
	require.NoError(t, inputs.Complete(b, kind))
	dir = t.TempDir()
	if kind == bundle.Headers {
		return dir, recording.Extract(t.Context(), b, dir)
	}
	return dir, assert.Err(inputs.Extract(t.Context(), b, dir))
}

func TestRefused(t *testing.T) {
	t.Parallel()
	assert.ErrorContains(t, assert.Err(inputs.FromFile(t.Context(), t.TempDir())), "not a regular file")
	for _, line := range []string{"what is this", "sha256:x", "sha256:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("a", 64) + " /none/x http://a/b", "x /none/x http://a/b"} {
		_, _, err := inputs.Fetched(t.Context(), line)
		assert.Errorf(t, err, "%q", line)
	}
}
