package images

import (
	"errors"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/runner"
)

// TestTryCompile: the runner gets the image as it is and the headers of a kernel. fakeRunner checks that both
// are there.
func TestTryCompile(t *testing.T) {
	t.Parallel()
	r, fake := precompiledRig(t)
	as := func(img v1.Image) *registry.Opened {
		digest := require.Value(img.Digest())(t)
		return &registry.Opened{Image: img, Digest: digest}
	}
	universal := as(r.build(t, pair("debian12", newDriver), recipe.Options{}))
	for asked, want := range map[string]string{"": imagetest.Kernel, imagetest.OldKernel: imagetest.OldKernel} {
		assert.Equalf(t, want, require.Value(r.b.TryCompile(t.Context(), "x", universal, asked))(t), "kernel %q", asked)
	}
	assert.Equalf(t, 2, fake.runs.Load(), "compiles")
	_, err := r.b.TryCompile(t.Context(), "x", universal, "no release")
	assert.ErrorContains(t, err, `"no release" is no release of a kernel of debian12`)
	if _, err := r.b.TryCompile(t.Context(), "x", as(thin(t, r)), ""); !errors.Is(err, ErrNotCompiling) || !strings.Contains(err.Error(), "no compiler") {
		t.Errorf("an image without a compiler: %v", err)
	}
	fake.fails = &runner.FailedError{Step: "modules", Runner: "fake", Code: 2}
	_, err = r.b.TryCompile(t.Context(), "x", universal, "")
	if failed := (*runner.FailedError)(nil); !errors.As(err, &failed) {
		t.Errorf("a compile that fails: %v", err)
	}
	r.b.Runner = nil
	_, err = r.b.TryCompile(t.Context(), "x", universal, "")
	assert.ErrorContains(t, err, "there is no runner")
}
