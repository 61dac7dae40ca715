package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const libs = "usr/lib/x86_64-linux-gnu"

// Every root that breaks a rule makes a program fail.
func TestBrokenRoots(t *testing.T) {
	private(t)
	dir, image := Prepare(t), unpacked(t, "full")
	t.Run("none", func(t *testing.T) {
		sound(t, run(t, Options{Consumer: dir, Root: image.tree(t), Version: driver}))
	})
	for _, c := range []struct {
		name     string
		spoil    func(r spoiled)
		problems []string // parts of problems that programs report
	}{
		{name: "a library of another version", spoil: func(r spoiled) { r.link(libs+"/libcuda.so."+driver, libs+"/libcuda.so.470.1") },
			problems: []string{"nvidia-ctk: 27 of 27 libraries are not found", "nvidia-ctk: libcuda.so.470.1 is of another version"}},
		{name: "libnvidia-ml behind an absolute link", spoil: func(r spoiled) {
			r.remove(libs + "/libnvidia-ml.so.1")
			r.symlink("/"+libs+"/libnvidia-ml.so."+driver, libs+"/libnvidia-ml.so.1")
		}, problems: []string{"validator's nvidia-smi: libnvidia-ml.so.1 is in none of", "DRA driver's prestart: libnvidia-ml.so.1 leads to no file"}},
		{name: "Debian's alternatives", spoil: func(r spoiled) {
			require.NoError(r.T, os.MkdirAll(filepath.Join(r.dir, libs, "nvidia/current"), 0o755))
			for _, lib := range []string{"libnvidia-ml", "libcuda"} {
				require.NoError(r.T, os.Rename(filepath.Join(r.dir, libs, lib+".so."+driver), filepath.Join(r.dir, libs, "nvidia/current", lib+".so."+driver)))
				r.remove(libs + "/" + lib + ".so.1")
				r.symlink("/etc/alternatives/glx--"+lib, libs+"/"+lib+".so.1")
				r.symlink("/"+libs+"/nvidia/current/"+lib+".so."+driver, "etc/alternatives/glx--"+lib)
			}
		}, problems: []string{"validator's nvidia-smi: libnvidia-ml.so.1 is in none of"}},
		{name: "libnvidia-ml in a folder that only ld.so.cache names", spoil: func(r spoiled) {
			require.NoError(r.T, os.MkdirAll(filepath.Join(r.dir, "opt/nv/lib"), 0o755))
			for _, name := range []string{"libnvidia-ml.so." + driver, "libnvidia-ml.so.1", "libnvidia-ml.so"} {
				require.NoError(r.T, os.Rename(filepath.Join(r.dir, libs, name), filepath.Join(r.dir, "opt/nv/lib", name)))
			}
			require.NoError(r.T, os.WriteFile(filepath.Join(r.dir, "etc/ld.so.conf.d/nv.conf"), []byte("/opt/nv/lib\n"), 0o644))
			r.remove("etc/ld.so.cache")
			require.Value(tool.Run(r.Context(), r.dir, nil, "chroot", r.dir, "/sbin/ldconfig"))(r.T)
		}, problems: []string{"validator's nvidia-smi: libnvidia-ml.so.1 is in none of", "nvidia-ctk: 1 of 27 libraries are not found: libnvidia-ml.so." + driver}},
		{name: "no version in the names", spoil: func(r spoiled) {
			for _, lib := range []string{"libnvidia-ml", "libcuda"} {
				r.remove(libs + "/" + lib + ".so.1")
				require.NoError(r.T, os.Rename(filepath.Join(r.dir, libs, lib+".so."+driver), filepath.Join(r.dir, libs, lib+".so.1")))
			}
		}, problems: []string{"nvidia-ctk: exit code 1"}},
		{name: "nvidia-smi behind an absolute link", spoil: func(r spoiled) {
			require.NoError(r.T, os.Rename(filepath.Join(r.dir, "usr/bin/nvidia-smi"), filepath.Join(r.dir, "opt/nvidia-smi")))
			r.symlink("/opt/nvidia-smi", "usr/bin/nvidia-smi")
		}, problems: []string{"validator's nvidia-smi: nvidia-smi is in none of"}},
		{name: "nvidia-smi behind a relative link", spoil: func(r spoiled) {
			require.NoError(r.T, os.Rename(filepath.Join(r.dir, "usr/bin/nvidia-smi"), filepath.Join(r.dir, "opt/nvidia-smi")))
			r.symlink("../../opt/nvidia-smi", "usr/bin/nvidia-smi")
		}, problems: []string{"DRA driver's prestart: there is no regular file nvidia-smi"}},
		{name: "no nvidia-smi", spoil: func(r spoiled) { r.remove("usr/bin/nvidia-smi") },
			problems: []string{"validator's nvidia-smi: nvidia-smi is in none of", "nvidia-ctk: 1 of"}},
		{name: "a library that is cut off", spoil: func(r spoiled) {
			r.remove(libs + "/libnvidia-ml.so." + driver)
			require.NoError(r.T, os.WriteFile(filepath.Join(r.dir, libs, "libnvidia-ml.so."+driver), []byte("\x7fELF"), 0o644))
		}, problems: []string{"validator's nvidia-smi: nvidia-smi: exit code 12", "DRA driver's prestart: nvidia-smi: exit code 12"}},
		{name: "firmware behind a dead link", spoil: func(r spoiled) {
			r.remove("lib/firmware/nvidia/" + driver)
			r.symlink("../../../share/nowhere", "lib/firmware/nvidia/"+driver)
		}, problems: []string{"nvidia-ctk: 2 of 2 firmware files are not found"}},
		{name: "dev without sys", spoil: func(r spoiled) { require.NoError(r.T, os.Mkdir(filepath.Join(r.dir, "dev"), 0o755)) },
			problems: []string{"validator's device list: the root has dev"}},
		{name: "no modprobe", spoil: func(r spoiled) { r.remove("sbin/modprobe") }, problems: []string{"validator's modprobe: chroot"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := image.tree(t)
			c.spoil(spoiled{T: t, dir: root})
			all := strings.Join(run(t, Options{Consumer: dir, Root: root, Version: driver}).Problems(), "\n")
			for _, p := range c.problems {
				assert.Contains(t, all, p)
			}
		})
	}
}

// spoiled is a root that a case breaks.
type spoiled struct {
	*testing.T
	dir string
}

func (s spoiled) remove(name string) {
	s.Helper()
	require.NoError(s.T, os.Remove(filepath.Join(s.dir, name)))
}

func (s spoiled) link(from, to string) {
	s.Helper()
	require.NoError(s.T, os.Link(filepath.Join(s.dir, from), filepath.Join(s.dir, to)))
}

func (s spoiled) symlink(target, name string) {
	s.Helper()
	require.NoError(s.T, os.Symlink(target, filepath.Join(s.dir, name)))
}
