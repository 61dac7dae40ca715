package writing_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/writing"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/outfile"
)

// TestSameBytes makes a bundle of the same artifacts in another order, to a pipe and to a file.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	artifacts := bundletest.Artifacts(t)
	one := bundletest.Bytes(t, bundletest.Options(), artifacts)
	artifacts[0], artifacts[2] = artifacts[2], artifacts[0]
	p := bundletest.Plan(t, bundletest.Options(), artifacts)
	two := bundletest.Files(t, p)[0]
	if !bytes.Equal(one, two) {
		t.Error("the bytes differ")
	}
	assert.Equal(t, int64(len(two)), p.Sizes[0])
}

// counted counts the blobs that are opened.
func counted(artifacts []writing.Artifact, n *int, fail func(n int) error) []writing.Artifact {
	for _, a := range artifacts {
		for i, b := range a.Content.Blobs {
			a.Content.Blobs[i].Open = func() (io.ReadCloser, error) {
				*n++
				if err := fail(*n); err != nil {
					return nil, err
				}
				return b.Open()
			}
		}
	}
	return artifacts
}

// TestResume stops at each blob, damages what is there, and continues.
func TestResume(t *testing.T) {
	t.Parallel()
	want := bundletest.Bytes(t, bundletest.Options(), bundletest.Artifacts(t))
	errSource := errors.New("the source is gone")
	for stop := 1; stop < 8; stop++ {
		path := filepath.Join(t.TempDir(), "b.tar")
		n := 0
		artifacts := counted(bundletest.Artifacts(t), &n, func(n int) error {
			if n == stop {
				return errSource
			}
			return nil
		})
		p := bundletest.Plan(t, bundletest.Options(), artifacts)
		err := p.WriteFiles(t.Context(), path, false, nil)
		assert.ErrorIs(t, err, errSource)
		assert.ErrorContains(t, err, "--resume")
		assert.ErrorIs(t, assert.Err(os.Stat(path)), os.ErrNotExist)
		partial := outfile.PartialName(path)
		raw := require.Value(os.ReadFile(partial))(t)
		raw[len(raw)/2] ^= 1
		require.NoError(t, os.WriteFile(partial, raw, 0o600))
		n = 100
		require.NoError(t, p.WriteFiles(t.Context(), path, true, nil))
		if stop > 5 && n-100 > 9 {
			t.Errorf("stopped at %d: %d blobs were read again", stop, n-100)
		}
		if !bytes.Equal(want, require.Value(os.ReadFile(path))(t)) {
			t.Errorf("stopped at %d: the bytes differ", stop)
		}
		n = 100
		require.NoError(t, p.WriteFiles(t.Context(), path, true, nil))
		assert.Equal(t, 100, n)
		assert.ErrorIs(t, assert.Err(os.Stat(partial)), os.ErrNotExist)
	}
}

// full is a pipe to a medium that takes so many bytes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

func TestFull(t *testing.T) {
	t.Parallel()
	p := bundletest.Plan(t, bundletest.Options(), bundletest.Artifacts(t))
	for left := 0; left < int(p.Sizes[0]); left += 500 {
		assert.ErrorIs(t, p.Stream(t.Context(), &full{left}, nil), syscall.ENOSPC)
	}
	assert.NoError(t, p.Stream(t.Context(), &full{int(p.Sizes[0])}, nil))
}

func TestDamagedSource(t *testing.T) {
	t.Parallel()
	artifacts := bundletest.Artifacts(t)
	artifacts[1].Content.Blobs[1].Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("layer of thr33")), nil }
	err := bundletest.Plan(t, bundletest.Options(), artifacts).Stream(t.Context(), io.Discard, nil)
	assert.ErrorContains(t, err, "is not what was asked for")
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*writing.Options, []writing.Artifact) []writing.Artifact{
		"nothing is selected": func(*writing.Options, []writing.Artifact) []writing.Artifact { return nil },
		"does not fit": func(o *writing.Options, a []writing.Artifact) []writing.Artifact {
			o.PartSize = 90_000
			a[1].Content = bundletest.Image(t, strings.Repeat("x", 60_000))
			return a
		},
		"is in it twice": func(_ *writing.Options, a []writing.Artifact) []writing.Artifact { a[1].Tags = a[0].Tags; return a },
		"which is not selected": func(_ *writing.Options, a []writing.Artifact) []writing.Artifact {
			a[1].Attachments = []oci.Attachment{bundletest.Referrer(t, a[0].Content.Top(), "application/x", "x")}
			return a
		},
		"names no registry": func(_ *writing.Options, a []writing.Artifact) []writing.Artifact {
			a[1].Repository = "gpu/driver"
			return a
		},
		"is no tag": func(_ *writing.Options, a []writing.Artifact) []writing.Artifact {
			a[1].Tags = []string{"a b"}
			return a
		},
	} {
		o := bundletest.Options()
		artifacts := change(&o, bundletest.Artifacts(t))
		assert.ErrorContains(t, assert.Err(writing.Prepare(t.Context(), o, artifacts)), want)
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	artifacts := bundletest.Artifacts(t)
	all := bundletest.Plan(t, bundletest.Options(), artifacts)
	o := bundletest.Options()
	raw := require.Value(all.List.Encode())(t)
	o.Since = []bundle.Stock{require.Value(bundle.DecodeStock(raw))(t)}
	p := bundletest.Plan(t, o, artifacts)
	assert.Equal(t, len(p.List.Blobs), len(p.List.Absent))
	assert.Equal(t, all.Manifest.Digest.String(), p.List.Absent[0].Source)
	assert.Equal(t, 0, len(p.List.Present()[0]))
}
