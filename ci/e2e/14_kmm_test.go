package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// Test14KMM goes through the steps of Kernel Module Management with a real image: what its pod copies out of
// the image, in the image's own root and with its own programs, and what its worker asks modprobe for. The
// image has Debian's kmod, whose depmod then finds nothing to change.
func Test14KMM(t *testing.T) {
	journey(t)
	img, _ := precompiled(t, filepath.Join(scratch(t), "kmm"), "--kmm", "--builder", "chroot")
	unpacked := image{dir: filepath.Join(scratch(t), "gzip"), tag: "image"} // umoci 0.4 reads no zstd
	sh(t, "skopeo", "copy", "-q", "--dest-compress-format", "gzip", img.ref(), unpacked.ref())
	release, root := newestKernel(t), unpacked.unpack(t)
	firmware := "/usr/share/nvidia-driver/firmware"
	chroot(root, "/bin/sh", "-c", "\nmkdir -p /tmp/opt/lib/modules;\ncp -R /opt/lib/modules/"+release+" /tmp/opt/lib/modules;\n"+
		"\nmkdir -p /tmp"+firmware+";\ncp -R "+firmware+"/* /tmp"+firmware+";\n").want(t, 0)
	dir := filepath.Join(root, "tmp/opt/lib/modules", release)
	for name, want := range map[string]string{
		"nvidia-uvm": "nvidia.ko nvidia-uvm.ko", "nvidia-drm": "nvidia.ko nvidia-modeset.ko nvidia-drm.ko", "nvidia": "nvidia.ko", "char-major-195-0": "nvidia.ko",
	} {
		var files []string
		for line := range strings.Lines(chroot(root, "modprobe", "-d", "/tmp/opt", "-S", release, "--show-depends", name).want(t, 0).stdout) {
			files = append(files, filepath.Base(strings.Fields(line)[1]))
		}
		assert.Equalf(t, want, strings.Join(files, " "), "%s", name)
	}
	if _, err := os.Stat(filepath.Join(root, "tmp", firmware, "nvidia", thinDriver, "gsp_tu10x.bin")); err != nil {
		t.Error(err)
	}
	before := map[string]string{}
	for _, name := range []string{"modules.dep", "modules.alias", "modules.softdep", "modules.symbols"} {
		before[name] = sorted(t, filepath.Join(dir, name))
	}
	chroot(root, "depmod", "-b", "/tmp/opt", release).want(t, 0)
	for name, text := range before {
		assert.Equalf(t, sorted(t, filepath.Join(dir, name)), text, "%s", name)
	}
}

func sorted(t *testing.T, file string) string {
	t.Helper()
	lines := strings.Split(string(require.Value(os.ReadFile(file))(t)), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
