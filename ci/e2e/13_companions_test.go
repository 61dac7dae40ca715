package e2e

import (
	"path"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
)

// companionFlags select the modules that GPUDirect needs, and what they need.
func companionFlags() []string {
	return []string{"--companions", "nvidia-fs", "--modules", "nvidia,nvidia-uvm,nvidia-peermem"}
}

// Debian's nvidia-fs is compiled against the closed driver for Debian 12's kernel, and lies beside nvidia.ko.
// A second compile and a compile by BuildKit give the same bytes.
func TestCompanions(t *testing.T) {
	root := journey(t)
	local, _ := precompiled(t, filepath.Join(workspace(t), "debian", "companions"), append(companionFlags(), "--builder", "chroot")...)
	layer := "modules proprietary " + newestKernel(t)
	here := local.contents(t, layer)
	module := ""
	for name := range here {
		if path.Base(name) == "nvidia-fs.ko" {
			module = name
		}
	}
	if module == "" {
		t.Fatalf("there is no nvidia-fs.ko among the modules: %v", here)
	}
	again, r := precompiled(t, filepath.Join(scratch(t), "again"), append(companionFlags(), "--builder", "chroot", "--cache", cacheWithout(t, local, layer))...)
	assert.Containsf(t, r.stderr, "compiling with chroot", "it did not compile again %s", r)
	assert.Equalf(t, here[module], again.contents(t, layer)[module], "nvidia-fs.ko of the second compile")
	assert.Equalf(t, local.digest, again.digest, "the image")
	t.Run("BuildKit", func(t *testing.T) {
		sameByBuildKit(t, root, local, layer, companionFlags()...)
	})
}
