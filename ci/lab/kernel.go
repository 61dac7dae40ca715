package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// kernelRecipe is part of the cache's names: increase it when the result of ci/lab/kernel changes.
const kernelRecipe = "2"

// bootModules are needed for the disks, the port and their file systems. Those that are built into the kernel
// are skipped. The checksum comes first: libcrc32c requests it through modprobe, which the initramfs does not
// have.
var bootModules = []string{"crc32c_generic", "virtio_pci", "virtio_blk", "virtio_console", "erofs", "ext4", "overlay"}

// HostKernel is a Debian kernel with its modules and headers.
type HostKernel struct {
	System  string // "debian12"
	Release string // "6.1.0-56-amd64"
	Root    string // folder on this machine: usr/lib/modules/RELEASE, usr/src/linux-headers-*, usr/lib/linux-kbuild-*
	image   string // vmlinux, which QEMU starts by its PVH entry
	signed  string // vmlinuz, which firmware starts
	disk    string // Root and busybox, as erofs
}

// Kernel downloads the newest kernel of a system, "debian11" or "debian12", or takes it from the cache.
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
		Root: filepath.Join(dir, "root"), image: filepath.Join(dir, "vmlinux"), signed: filepath.Join(dir, "vmlinuz"), disk: filepath.Join(dir, "host.erofs"),
	}
}

// initramfs writes the first file system: the agent as /init, and the boot modules.
func (k *HostKernel) initramfs(t testing.TB, path string) {
	t.Helper()
	agent := filepath.Join(filepath.Dir(path), "agent")
	require.NoError(t, tool.Build(t.Context(), agent, "ci/lab/agent", "GOARCH=amd64"))
	init := require.Value(os.ReadFile(agent))(t)
	var b bytes.Buffer
	c := cpio{w: &b}
	for _, d := range []string{"dev", "proc", "sys", "newroot", "boot"} {
		c.dir(d)
	}
	c.file("init", 0o755, init)
	c.file("os-release", 0o644, []byte(osRelease(k.System)))
	modules := filepath.Join(k.Root, "usr/lib/modules", k.Release)
	dep := require.Value(os.ReadFile(filepath.Join(modules, "modules.dep")))(t)
	var order []string
	for _, file := range loadOrder(string(dep), bootModules) {
		data := require.Value(os.ReadFile(filepath.Join(modules, file)))(t)
		order = append(order, filepath.Base(file))
		c.file("boot/"+filepath.Base(file), 0o644, data)
	}
	c.file("boot/order", 0o644, []byte(strings.Join(order, "\n")))
	require.NoError(t, c.close())
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
}

// osRelease is /etc/os-release of the guest's host.
func osRelease(system string) string {
	version := strings.TrimPrefix(system, "debian")
	return fmt.Sprintf("PRETTY_NAME=\"Debian GNU/Linux %[1]s\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"%[1]s\"\nID=debian\n", version)
}

// loadOrder lists the files of modules and of their dependencies, by the text of modules.dep, in the order in
// which they can be loaded. A name that is not in it is built in.
func loadOrder(dep string, names []string) []string {
	files := map[string]string{}
	needs := map[string][]string{}
	for line := range strings.Lines(dep) {
		file, rest, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found {
			continue
		}
		files[moduleName(file)] = file
		needs[file] = strings.Fields(rest)
	}
	var order []string
	for _, name := range names {
		file, found := files[name]
		if !found {
			continue
		}
		chain := slices.Clone(needs[file])
		slices.Reverse(chain) // modules.dep names direct dependencies first
		for _, f := range append(chain, file) {
			if !slices.Contains(order, f) {
				order = append(order, f)
			}
		}
	}
	return order
}

func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// varDisk makes an empty ext4 file system of the given size, as a sparse file.
func varDisk(t testing.TB, megabytes int) string {
	t.Helper()
	return cached(t, fmt.Sprintf("var-%d.ext4", megabytes), func(path string) {
		tool.Must(t, "mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "lazy_itable_init=1", path, fmt.Sprintf("%dM", megabytes))
	})
}
