package host

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

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
	if !errors.As(err, new(*NoModulesError)) || !strings.Contains(err.Error(), "neither modules nor a toolchain") {
		t.Errorf("%v", err)
	}
	if s.cached(w.Flavour, w.Release) {
		t.Error("the cache is empty")
	}
	require.Value(s.Keep(t.Context(), made(t, imageKernel)))(t)
	if _, source, err := s.Find(t.Context(), w); err != nil || source != status.FromCache || !s.cached(w.Flavour, w.Release) {
		t.Errorf("from %s, %v", source, err)
	}
}

// TestGuestModules: a driver of whole GPUs and one for vGPU guests may have the same version and share the
// host's cache. Neither takes the other's modules.
func TestGuestModules(t *testing.T) {
	t.Parallel()
	s := signing(t, "")
	w := node.Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel}
	require.Value(s.Keep(t.Context(), made(t, imageKernel)))(t)
	s.info.VGPU = driverinfo.VGPUAWS
	if _, _, err := s.Find(t.Context(), w); !errors.Is(err, kbuild.ErrMiss) || s.cached(w.Flavour, w.Release) {
		t.Errorf("a guest found modules of whole GPUs: %v", err)
	}
	set := made(t, imageKernel)
	set.Key.Variables = driverinfo.MakeVariables(driverinfo.VGPUAWS)
	require.Value(s.Keep(t.Context(), set))(t)
	found, _, err := s.Find(t.Context(), w)
	if err != nil || !slices.Equal(found.Key.Variables, set.Key.Variables) {
		t.Errorf("a guest's modules: %v, %v", found, err)
	}
	s.info.VGPU = ""
	if found, _, err = s.Find(t.Context(), w); err != nil || found.Key.Variables != nil {
		t.Errorf("modules of whole GPUs: %v, %v", found, err)
	}
}
