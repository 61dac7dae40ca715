package writing_test

import (
	"bytes"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/bundletest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/bundle/writing"
	"github.com/driver-container/driver-container/images/oci"
)

// TestSameBytes makes a bundle of the same artifacts in another order.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	artifacts := bundletest.Artifacts(t)
	one := bundletest.Bytes(t, bundletest.Options(), artifacts)
	artifacts[0], artifacts[2] = artifacts[2], artifacts[0]
	if !bytes.Equal(one, bundletest.Bytes(t, bundletest.Options(), artifacts)) {
		t.Error("the bytes differ")
	}
	assert.Equal(t, int64(len(one)), bundletest.Plan(t, bundletest.Options(), artifacts).Size)
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
	for left := 0; left < int(p.Size); left += 500 {
		assert.ErrorIs(t, p.Write(t.Context(), &full{left}, nil), syscall.ENOSPC)
	}
	assert.NoError(t, p.Write(t.Context(), &full{int(p.Size)}, nil))
}

func TestDamagedSource(t *testing.T) {
	t.Parallel()
	artifacts := bundletest.Artifacts(t)
	artifacts[1].Content.Blobs[1].Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("layer of thr33")), nil }
	err := bundletest.Plan(t, bundletest.Options(), artifacts).Write(t.Context(), io.Discard, nil)
	assert.ErrorContains(t, err, "is not what was asked for")
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*writing.Options, []writing.Artifact) []writing.Artifact{
		"nothing is selected": func(*writing.Options, []writing.Artifact) []writing.Artifact { return nil },
		"is in it twice":      func(_ *writing.Options, a []writing.Artifact) []writing.Artifact { a[1].Tags = a[0].Tags; return a },
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
	assert.Equal(t, 0, len(p.List.Present()))
}
