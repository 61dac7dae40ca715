package host

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/status"
)

// TestDamagedImage checks that the error for a damaged set of the image names the image, and that the cache
// is searched all the same.
func TestDamagedImage(t *testing.T) {
	t.Parallel()
	s := signing(t, "")
	set, err := kbuild.Cache{Dir: s.image}.Put(t.Context(), made(t, imageKernel))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(set.Modules[0].Path, []byte("x"), 0o600))
	w := node.Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel}
	_, _, err = s.Find(t.Context(), w)
	if corrupt, ok := errors.AsType[*kbuild.CorruptError](err); !errors.Is(err, kbuild.ErrMiss) || !ok || !strings.HasPrefix(corrupt.Dir, s.image) {
		t.Errorf("%v", err)
	}
	s.info.Toolchain = false
	_, err = s.compile(t.Context(), w)
	require.ErrorAs[*NoModulesError](t, err)
	assert.ErrorContains(t, err, "neither modules nor a toolchain")
	assert.Equalf(t, false, s.cached(w.Flavour, w.Release), "the cache is empty")
	require.Value(s.Keep(t.Context(), made(t, imageKernel), nil))(t)
	if _, source, err := s.Find(t.Context(), w); err != nil || source != status.FromCache || !s.cached(w.Flavour, w.Release) {
		t.Errorf("from %s, %v", source, err)
	}
}
