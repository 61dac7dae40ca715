package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse/guest"
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

// bootModules are needed for the disks, the port and their file systems. The checksum comes first:
// libcrc32c requests it through modprobe, which does not find modules in the initramfs.
var bootModules = []string{
	"crc32c_generic",
	"virtio_pci",
	"virtio_blk",
	"virtio_console",
	"erofs",
	"ext4",
	"overlay",
}

func (k *HostKernel) guest(t testing.TB) *guest.Kernel {
	t.Helper()
	version := strings.TrimPrefix(k.System, "debian")
	made := &guest.Kernel{
		System: k.System, Release: k.Release, Image: k.image, Signed: k.signed, Disk: k.disk,
		OSRelease: fmt.Sprintf("PRETTY_NAME=\"Debian GNU/Linux %[1]s\"\nNAME=\"Debian GNU/Linux\"\n"+
			"VERSION_ID=\"%[1]s\"\nID=debian\n", version),
	}
	for _, name := range bootModules {
		// Lines are "insmod FILE", those it needs first, or "builtin NAME".
		lines := tool.Must(t, "modprobe", "-d", filepath.Join(k.Root, "usr"), "-S", k.Release, "--show-depends", name)
		for line := range strings.Lines(lines) {
			file, found := strings.CutPrefix(strings.TrimSpace(line), "insmod ")
			if found && !slices.Contains(made.BootModules, file) {
				made.BootModules = append(made.BootModules, file)
			}
		}
	}
	return made
}
