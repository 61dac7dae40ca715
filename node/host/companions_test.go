package host

import (
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// found leaves out where a set is from.
func found(set *kbuild.Set, _ string, err error) (*kbuild.Set, error) { return set, err }

// TestFindCompanions: a start that asks for companions takes only modules that were compiled with them, also
// where one of them did not compile; a start that asks for none, or that cannot compile, takes any.
func TestFindCompanions(t *testing.T) {
	t.Parallel()
	s := signing(t, "")
	s.info.Companions = []driverinfo.Companion{
		{Name: driverinfo.NvidiaFS, Version: "2.13.5", Digest: strings.Repeat("ab", 32), Sources: "/usr/src/nvidia-fs-2.13.5"},
		{Name: driverinfo.GDRDrv, Version: "2.5.2", Digest: strings.Repeat("cd", 32), Sources: "/usr/src/gdrdrv-2.5.2", Flavours: []string{driverinfo.Open}},
	}
	plain := node.Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel}
	asked := plain
	asked.Companions = driverinfo.Companions()
	require.Value(s.Keep(t.Context(), made(t, imageKernel), nil))(t)
	_, _, err := s.Find(t.Context(), asked)
	assert.ErrorIsf(t, err, kbuild.ErrMiss, "modules without the companion")
	s.info.Toolchain = false
	require.Value(found(s.Find(t.Context(), asked)))(t)
	s.cfg.Toolkit = t.TempDir()
	assert.ErrorIsf(t, assert.Err(found(s.Find(t.Context(), asked))), kbuild.ErrMiss, "another container compiles")
	s.cfg.Toolkit = ""
	s.info.Toolchain = true
	s.cfg.NoCompile = true
	require.Value(found(s.Find(t.Context(), asked)))(t)
	assert.ErrorIsf(t, assert.Err(s.Compile(t.Context(), asked, node.CompileEvents{})), config.ErrConfig, "it compiles in spite of --no-compile")
	s.cfg.NoCompile = false
	set := made(t, imageKernel)
	for _, c := range modules.Companions(s.info, plain.Flavour, asked.Companions) {
		set.Key.Companions = append(set.Key.Companions, c.ID())
		set.Omitted = append(set.Omitted, kbuild.Omission{Module: c.Name, Reason: "no such function"})
	}
	assert.Equalf(t, 1, len(set.Omitted), "gdrdrv is for the open modules")
	require.Value(kbuild.Cache{Dir: s.image}.Put(t.Context(), set))(t)
	for _, w := range []node.Want{asked, plain} {
		found, source, err := s.Find(t.Context(), w)
		require.NoError(t, err)
		assert.Equal(t, status.FromImage, source)
		assert.Equal(t, "no such function", found.OmittedReason(driverinfo.NvidiaFS))
	}
}
