package driverinfo

import (
	"errors"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// withCompanions returns a description with both companions.
func withCompanions() Description {
	i := example()
	i.Companions = []Companion{
		{Name: GDRDrv, Version: "2.5.2", Digest: strings.Repeat("ab", 32), Sources: "/usr/src/gdrdrv-2.5.2"},
		{Name: NvidiaFS, Version: "2.13.5", Digest: strings.Repeat("cd", 64), Sources: "/usr/src/nvidia-fs-2.13.5", Flavours: []string{Proprietary}},
	}
	return i
}

func TestCompanions(t *testing.T) {
	t.Parallel()
	want := withCompanions()
	got := require.Value(Decode(require.Value(want.Encode())(t)))(t)
	assert.Same(t, want, got)
	fs, ok := got.Companion(NvidiaFS)
	assert.Equalf(t, true, ok && fs.Fits(Proprietary) && !fs.Fits(Open), "nvidia-fs: %+v", fs)
	drv, ok := got.Companion(GDRDrv)
	assert.Equalf(t, true, ok && drv.Fits(Open), "gdrdrv: %+v", drv)
	_, ok = example().Companion(NvidiaFS)
	assert.Equalf(t, false, ok, "an image without companions")
}

func TestCompanionsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(i *Description)
		want   string
	}{
		{func(i *Description) { i.Companions[0].Name = "nv-p2p-dummy" }, `companion "nv-p2p-dummy" is not known: it is one of nvidia-fs, gdrdrv`},
		{func(i *Description) { i.Companions[0].Version = "2.5/../.." }, "which is no version"},
		{func(i *Description) { i.Companions[0].Digest = "ab" }, "which is no digest"},
		{func(i *Description) { i.Companions[0].Sources = "/etc" }, `has its sources in "/etc", not in /usr/src/gdrdrv-2.5.2`},
	} {
		i := withCompanions()
		c.change(&i)
		_, err := i.Encode()
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
