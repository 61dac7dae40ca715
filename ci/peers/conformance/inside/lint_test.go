package inside

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const lintVersion = "535.261.03"

// served makes a folder that is a good root when device nodes are on the host's /dev.
func served(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const lib = "usr/lib/x86_64-linux-gnu/"
	for _, d := range append([]string{"proc"}, socketDirs...) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for name, target := range map[string]string{"lib": "usr/lib", "sbin": "usr/sbin", "bin": "usr/bin", "usr/sbin/modprobe": "/bin/kmod",
		"usr/lib/firmware/nvidia/" + lintVersion: "../../../share/nvidia-driver/firmware/nvidia/" + lintVersion} {
		testfile.Write(t, dir+"/"+name, "-> "+target)
	}
	for _, name := range []string{"libnvidia-ml.so", "libcuda.so"} {
		testfile.WriteMode(t, dir+"/"+lib+name+"."+lintVersion, name, 0o755)
		testfile.Write(t, dir+"/"+lib+name+".1", "-> "+name+"."+lintVersion)
	}
	for _, name := range []string{"usr/bin/nvidia-smi", "usr/bin/kmod", "usr/sbin/ldconfig", "etc/ld.so.cache", "usr/src/nvidia-" + lintVersion + "/kernel/Kbuild",
		firmwareDirs[1] + "/" + lintVersion + "/gsp_ga10x.bin"} {
		testfile.WriteMode(t, dir+"/"+name, name, 0o755)
	}
	return dir
}

func TestLint(t *testing.T) {
	t.Parallel()
	const lib = "usr/lib/x86_64-linux-gnu/"
	gone := func(names ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, name := range names {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
			}
		}
	}
	relink := func(target, name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
			testfile.Write(t, dir+"/"+name, "-> "+target)
		}
	}
	folder := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755)) }
	}
	file := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { testfile.WriteMode(t, dir+"/"+name, text, 0o755) }
	}
	for name, c := range map[string]struct {
		change  func(*testing.T, string)
		hostDev bool
		want    []string
	}{
		"good":                 {func(*testing.T, string) {}, true, nil},
		"no NVML":              {gone(lib + "libnvidia-ml.so.1"), true, []string{"libnvidia-ml.so.1 is in none of usr/lib64, usr/lib/x86_64-linux-gnu, usr/lib/aarch64-linux-gnu, lib64, lib/x86_64-linux-gnu, lib/aarch64-linux-gnu"}},
		"absolute link":        {relink("/"+lib+"libnvidia-ml.so."+lintVersion, lib+"libnvidia-ml.so.1"), true, []string{"libnvidia-ml.so.1 cannot be followed inside the root: statat usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1: path escapes from parent (links have to be relative)"}},
		"link out of the root": {relink("../../../../x", lib+"libcuda.so.1"), true, []string{"libcuda.so.1 cannot be followed inside the root: statat usr/lib/x86_64-linux-gnu/libcuda.so.1: path escapes from parent (links have to be relative)"}},
		"no versioned library": {func(t *testing.T, dir string) {
			gone(lib+"libcuda.so.1", lib+"libcuda.so."+lintVersion)(t, dir)
			file(lib+"libcuda.so.1", "x")(t, dir)
		}, true, []string{lib + "libcuda.so.1 is there, but not libcuda.so.535.261.03 beside it"}},
		"two versions":             {file(lib+"libcuda.so.470.1", "x"), true, []string{lib + "libcuda.so.470.1 is of another driver than 535.261.03"}},
		"another version current":  {file(lib+"nvidia/current/libnvidia-ml.so.470.256.02", "x"), true, []string{lib + "nvidia/current/libnvidia-ml.so.470.256.02 is of another driver than 535.261.03"}},
		"no nvidia-smi":            {gone("usr/bin/nvidia-smi"), true, []string{"nvidia-smi is in none of usr/bin, usr/sbin, bin, sbin"}},
		"nvidia-smi is a link":     {relink("kmod", "usr/bin/nvidia-smi"), true, []string{"usr/bin/nvidia-smi is not a program in a regular file"}},
		"no modprobe":              {gone("usr/sbin/modprobe"), true, []string{"sbin/modprobe is missing: readlinkat sbin/modprobe: no such file or directory"}},
		"modprobe leads nowhere":   {gone("usr/bin/kmod"), true, []string{"sbin/modprobe is missing: statat bin/kmod: no such file or directory"}},
		"no ldconfig, no cache":    {gone("usr/sbin/ldconfig", "etc/ld.so.cache"), true, []string{"sbin/ldconfig is missing: readlinkat sbin/ldconfig: no such file or directory", "etc/ld.so.cache is missing"}},
		"no sources, no procfs":    {gone("usr/src", "proc"), true, []string{"usr/src/nvidia-535.261.03 is not a folder in the root", "proc is not a folder in the root"}},
		"no place for sockets":     {gone("run/nvidia-persistenced"), true, []string{"run/nvidia-persistenced is not a folder in the root"}},
		"firmware by absolute":     {relink("/"+firmwareDirs[1]+"/"+lintVersion, "usr/lib/firmware/nvidia/"+lintVersion), true, []string{"lib/firmware/nvidia/535.261.03/gsp_ga10x.bin cannot be followed inside the root (links have to be relative)"}},
		"firmware of another":      {folder("usr/lib/firmware/nvidia/470.256.02"), true, []string{"lib/firmware/nvidia/470.256.02 is of another driver than 535.261.03"}},
		"firmware of the kernel":   {folder("usr/lib/firmware/nvidia/gm20b"), true, nil},
		"a driver before firmware": {gone("usr/share/nvidia-driver", "usr/lib/firmware"), true, nil},
		"dev without sys":          {folder("dev"), true, []string{"the root has dev but not sys/bus/pci/devices: consumers stop at that"}},
		"dev and sys":              {func(t *testing.T, dir string) { folder("dev")(t, dir); folder("sys/bus/pci/devices")(t, dir) }, false, nil},
		"nodes nowhere":            {func(*testing.T, string) {}, false, []string{"dev is not a folder in the root, and the device nodes are not in the host's /dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := served(t)
			c.change(t, dir)
			assert.Same(t, c.want, Lint(dir, lintVersion, c.hostDev))
		})
	}
	if found := Lint(filepath.Join(t.TempDir(), "none"), lintVersion, true); len(found) != 1 {
		t.Errorf("no root at all: %q", found)
	}
}
