package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// companionsOf are the companions of the tests: the real nvidia-fs of Debian, and a stand-in for gdrdrv,
// whose sources no repository of this project's tests has.
func companionsOf() []driverinfo.Companion {
	return []driverinfo.Companion{
		{Name: driverinfo.NvidiaFS, Version: "2.13.5", Digest: strings.Repeat("2135", 16), Sources: driverinfo.CompanionSources(driverinfo.NvidiaFS, "2.13.5")},
		{Name: driverinfo.GDRDrv, Version: "2.5.2", Digest: strings.Repeat("0252", 16), Sources: driverinfo.CompanionSources(driverinfo.GDRDrv, "2.5.2")},
	}
}

// describe adds the companions to an image's description of its driver.
func describe(t *testing.T, text string) string {
	t.Helper()
	info := require.Value(driverinfo.Decode([]byte(text)))(t)
	info.Companions = companionsOf()
	return string(require.Value(info.Encode())(t))
}

// nvidiaFS returns the sources of nvidia-fs 2.13.5.
func nvidiaFS(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(lab.CacheDir(t), "nvidia-fs-2.13.5")
	if _, err := os.Stat(dir); err != nil {
		tool.Must(t, filepath.Join(require.Value(tool.Project())(t), "ci/lab/nvidia-fs"), "bookworm", dir)
	}
	return dir
}

// withCompanions returns a set of the driver's modules with both companions, compiled by the image's own
// `nvidia-driver compile`, to which their sources and the description of them were added.
func withCompanions(t *testing.T, kernel *lab.HostKernel) *kbuild.Set {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	state := filepath.Join(lab.CacheDir(t), "state-companions-"+kernel.Release)
	match := func(k kbuild.Key) bool {
		return k.Driver == d535.driver && k.Flavour == closed && k.Release == kernel.Release && k.Method == kbuild.Method && len(k.Companions) == 2
	}
	cache := kbuild.Cache{Dir: filepath.Join(state, "modules")}
	if set, err := cache.Find(t.Context(), match); err == nil {
		return set
	}
	sources := nvidiaFS(t)
	out, err := d535.runIn(t, kernel, state, func(root string) {
		note := filepath.Join(root, driverinfo.Path)
		text := require.Value(os.ReadFile(note))(t)
		require.NoError(t, os.WriteFile(note, []byte(describe(t, string(text))), 0o644))
		for i, from := range []string{sources, "testdata/gdrdrv"} {
			tool.Must(t, "cp", "-a", from, filepath.Join(root, companionsOf()[i].Sources))
		}
	}, "compile", "--kernel", kernel.Release, "--kernel-module-type", closed, "--fetch-headers=false", "--gds", "--gdrcopy")
	require.NoErrorf(t, err, "compile %s with companions: %s", d535.tag(), out)
	set := require.Value(cache.Find(t.Context(), match))(t)
	if len(set.Omitted) > 0 {
		t.Fatalf("left out: %+v", set.Omitted)
	}
	return set
}
