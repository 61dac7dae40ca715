package lab

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// kernelRecipe is part of the cache's names: increase it when the result of ci/lab/kernel changes.
const kernelRecipe = "2"

// HostKernel is a Debian kernel with its modules and headers.
type HostKernel struct {
	System  string // "debian12"
	Release string // "6.1.0-56-amd64"
	// folder on this machine: usr/lib/modules/RELEASE, usr/src/linux-headers-*,
	// usr/lib/linux-kbuild-*
	Root   string
	image  string // vmlinux, which QEMU starts by its PVH entry
	signed string // vmlinuz, which firmware starts
	disk   string // Root and busybox, as erofs
}

// Kernel downloads the newest kernel of a system, "debian11" or "debian12", or takes it from the
// cache.
func Kernel(t testing.TB, system string) *HostKernel {
	t.Helper()
	return OlderKernel(t, system, 1)
}

// OlderKernel returns the nth newest kernel of a system; 2 is the one before the newest.
func OlderKernel(t testing.TB, system string, nth int) *HostKernel {
	t.Helper()
	name := system + "-kernel-" + kernelRecipe
	if nth > 1 {
		name += "-" + strconv.Itoa(nth)
	}
	dir := cached(t, name, func(path string) {
		tool.Must(t, filepath.Join(sourceDir(t), "kernel"), system, path, strconv.Itoa(nth))
	})
	release := require.Value(os.ReadFile(filepath.Join(dir, "release")))(t)
	return &HostKernel{
		System: system, Release: strings.TrimSpace(string(release)),
		Root: filepath.Join(
			dir,
			"root",
		), image: filepath.Join(dir, "vmlinux"), signed: filepath.Join(dir, "vmlinuz"), disk: filepath.Join(dir, "host.erofs"),
	}
}

// varDisk makes an empty ext4 file system of 8 GiB, as a sparse file.
func varDisk(t testing.TB) string {
	t.Helper()
	return cached(t, "var-8192.ext4", func(path string) {
		tool.Must(
			t,
			"mke2fs",
			"-q",
			"-F",
			"-t",
			"ext4",
			"-O",
			"^has_journal",
			"-m",
			"0",
			"-E",
			"lazy_itable_init=1",
			path,
			"8192M",
		)
	})
}
