package bundle_test

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/bundletest"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/oci"
)

// TestSameBytes makes a bundle of the same artifacts in another order.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	artifacts := bundletest.Artifacts(t)
	one := bundletest.Bytes(t, bundletest.Options(t), artifacts)
	artifacts[0], artifacts[2] = artifacts[2], artifacts[0]
	if !bytes.Equal(one, bundletest.Bytes(t, bundletest.Options(t), artifacts)) {
		t.Error("the bytes differ")
	}
	assert.Equal(t, int64(len(one)), bundletest.Plan(t, bundletest.Options(t), artifacts).Size)
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
	p := bundletest.Plan(t, bundletest.Options(t), bundletest.Artifacts(t))
	for left := 0; left < int(p.Size); left += 500 {
		assert.ErrorIs(t, p.Write(t.Context(), &full{left}, nil), syscall.ENOSPC)
	}
	assert.NoError(t, p.Write(t.Context(), &full{int(p.Size)}, nil))
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*bundle.Options, []bundle.Artifact) []bundle.Artifact{
		"it has no items": func(*bundle.Options, []bundle.Artifact) []bundle.Artifact { return nil },
		"is in it twice":  func(_ *bundle.Options, a []bundle.Artifact) []bundle.Artifact { a[1].Tags = a[0].Tags; return a },
		"which is not selected": func(_ *bundle.Options, a []bundle.Artifact) []bundle.Artifact {
			a[1].Attachments = []oci.Attachment{bundletest.Referrer(t, a[0].Content.Top(), "application/x", "x")}
			return a
		},
		"names no registry": func(_ *bundle.Options, a []bundle.Artifact) []bundle.Artifact {
			a[1].Repository = "gpu/driver"
			return a
		},
		"is no tag": func(_ *bundle.Options, a []bundle.Artifact) []bundle.Artifact {
			a[1].Tags = []string{"a b"}
			return a
		},
	} {
		o := bundletest.Options(t)
		artifacts := change(&o, bundletest.Artifacts(t))
		_, err := bundle.Prepare(t.Context(), o, artifacts)
		assert.ErrorContains(t, err, want)
		assert.Equal(t, failure.Usage, failure.KindOf(err))
	}
}
