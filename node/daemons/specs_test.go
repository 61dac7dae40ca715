package daemons

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/testfile"
)

// machine creates an image and a machine under one folder.
func machine(t *testing.T, files map[string]string) Facts {
	t.Helper()
	dir := testfile.Tree(t, t.TempDir(), files)
	return Facts{Root: filepath.Join(dir, "root"), Drivers: filepath.Join(dir, "drivers")}
}

func TestPersistencedAndVGPU(t *testing.T) {
	t.Parallel()
	if got := append(Persistenced(machine(t, nil)), VGPU(machine(t, nil))...); len(got) != 0 {
		t.Errorf("an empty image has %+v", got)
	}
	f := machine(t, map[string]string{
		"root/usr/bin/nvidia-persistenced": "", "root/usr/bin/nvidia-gridd": "", "root/usr/bin/nvidia-topologyd": "", "drivers/gridd.conf": "FeatureType=1\n",
		"drivers/ClientConfigToken/..data": "no", "drivers/ClientConfigToken/a.tok": "token",
	})
	specs := append(Persistenced(f), VGPU(f)...)
	var names []string
	for _, s := range specs {
		names = append(names, s.Name)
		if s.Before != nil {
			assert.NoError(t, s.Before(t.Context()))
		}
	}
	assert.Same(t, []string{"nvidia-persistenced", "nvidia-gridd", "nvidia-topologyd"}, names)
	for file, want := range map[string]string{"etc/nvidia/gridd.conf": "FeatureType=1\n", "etc/nvidia/ClientConfigToken/a.tok": "token"} {
		if got, err := os.ReadFile(filepath.Join(f.Root, file)); string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	assert.Errorf(t, assert.Err(os.Stat(filepath.Join(f.Root, "etc/nvidia/ClientConfigToken/..data"))), "the ConfigMap's own link was copied")
}
