package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/tool"
)

// Renamed returns the kernel with another release, in uname and in the path of its modules. With it a guest
// can stand for a node of a system whose kernels are not available. The kernel's own modules are the same
// files, and can still be loaded: with CONFIG_MODVERSIONS the checksums of symbols count, not the release in
// vermagic. The renamed kernel has no headers, and no signed image for firmware to start.
func (k *HostKernel) Renamed(t testing.TB, release string) *HostKernel {
	t.Helper()
	if len(release) >= utsField {
		t.Fatalf("%q is too long for the release of a kernel", release)
	}
	dir := cached(t, "renamed-"+kernelRecipe+"-"+k.Release+"-"+release, func(path string) {
		root := filepath.Join(path, "root")
		modules := filepath.Join(root, "usr/lib/modules", release)
		require.NoError(t, os.MkdirAll(filepath.Dir(modules), 0o755))
		tool.Must(t, "cp", "-al", filepath.Join(k.Root, "usr/lib/modules", k.Release), modules)
		tool.Must(t, "cp", "-al", filepath.Join(k.Root, "usr/bin"), filepath.Join(k.Root, "usr/sbin"), filepath.Join(root, "usr"))
		tool.Must(t, "rm", "-f", filepath.Join(modules, "build"), filepath.Join(modules, "source"))
		image := require.Value(os.ReadFile(k.image))(t)
		require.NoError(t, os.WriteFile(filepath.Join(path, "vmlinux"), renameUTS(t, image, k.Release, release), 0o644))
		makeErofs(t, root, filepath.Join(path, "host.erofs"))
	})
	return &HostKernel{
		System: k.System, Release: release,
		Root: filepath.Join(dir, "root"), image: filepath.Join(dir, "vmlinux"), disk: filepath.Join(dir, "host.erofs"),
	}
}

// utsField is the size of each field of struct new_utsname, __NEW_UTS_LEN + 1.
const utsField = 65

// renameUTS changes the release in init_uts_ns (init/version.c), at every place in the image: the fields
// sysname, nodename and release.
func renameUTS(t testing.TB, image []byte, from, to string) []byte {
	t.Helper()
	fields := func(release string) []byte {
		var all []byte
		for _, s := range []string{"Linux", "(none)", release} {
			all = append(append(all, s...), make([]byte, utsField-len(s))...)
		}
		return all
	}
	if !bytes.Contains(image, fields(from)) {
		t.Fatalf("the kernel has no init_uts_ns of %s", from)
	}
	return bytes.ReplaceAll(image, fields(from), fields(to))
}
