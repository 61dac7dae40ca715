package runfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/goldentest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/runfile"
)

const manifestHead = "NVIDIA Accelerated Graphics Driver for Linux-x86_64\n440.44\n \nnvidia nvidia-uvm nvidia-modeset nvidia-drm \n \n \n./kernel/\n./kernel/precompiled/\n"

var debian = runfile.Layout{LibDir: "usr/lib/x86_64-linux-gnu", LibDir32: "usr/lib/i386-linux-gnu", FirmwareDir: "usr/share/nvidia-driver/firmware"}

// Lines of real manifests, and the meaning of each word.
func TestParseManifestEntries(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]runfile.Entry{
		"kernel/nvidia/nv-kernel.o_binary 0644 KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman":             {File: "kernel/nvidia/nv-kernel.o_binary", Mode: 0o644, Type: "KERNEL_MODULE_SRC", Depth: 1, Tag: "resman"},
		"kernel/dkms.conf 0644 DKMS_CONF INHERIT_PATH_DEPTH:1 MODULE:resman":                                     {File: "kernel/dkms.conf", Mode: 0o644, Type: "DKMS_CONF", Depth: 1, Tag: "resman"},
		"libcuda.so.440.44 0755 CUDA_LIB NATIVE / MODULE:gpgpu":                                                  {File: "libcuda.so.440.44", Mode: 0o755, Type: "CUDA_LIB", Arch: runfile.Native, Path: "/", Tag: "gpgpu"},
		"libcuda.so.1 0000 CUDA_SYMLINK NATIVE / libcuda.so.440.44 MODULE:gpgpu":                                 {File: "libcuda.so.1", Type: "CUDA_SYMLINK", Arch: runfile.Native, Path: "/", Target: "libcuda.so.440.44", Tag: "gpgpu"},
		"tls/libnvidia-tls.so.390.48 0755 TLS_LIB NATIVE NEW tls/ MODULE:opengl":                                 {File: "tls/libnvidia-tls.so.390.48", Mode: 0o755, Type: "TLS_LIB", Arch: runfile.Native, TLS: "NEW", Path: "tls/", Tag: "opengl"},
		"libGL.so.1 0000 GLX_CLIENT_SYMLINK NATIVE libGL.so.390.48 NON_GLVND MODULE:opengl":                      {File: "libGL.so.1", Type: "GLX_CLIENT_SYMLINK", Arch: runfile.Native, Target: "libGL.so.390.48", GLVND: "NON_GLVND", Tag: "opengl"},
		"libwfb.so 0000 XMODULE_NEWSYM / libnvidia-wfb.so.1 MODULE:xdriver":                                      {File: "libwfb.so", Type: "XMODULE_NEWSYM", Path: "/", Target: "libnvidia-wfb.so.1", Tag: "xdriver"},
		"libvdpau_nvidia.so 0000 VDPAU_SYMLINK NATIVE / vdpau/libvdpau_nvidia.so.440.44 MODULE:vdpau":            {File: "libvdpau_nvidia.so", Type: "VDPAU_SYMLINK", Arch: runfile.Native, Path: "/", Target: "vdpau/libvdpau_nvidia.so.440.44", Tag: "vdpau"},
		"libnvidia-tls.so.440.44 0755 TLS_LIB NATIVE / MODULE:opengl":                                            {File: "libnvidia-tls.so.440.44", Mode: 0o755, Type: "TLS_LIB", Arch: runfile.Native, Path: "/", Tag: "opengl"},
		"libglxserver_nvidia.so 0000 GLX_MODULE_SYMLINK extensions/ libglxserver_nvidia.so.440.44 MODULE:opengl": {File: "libglxserver_nvidia.so", Type: "GLX_MODULE_SYMLINK", Path: "extensions/", Target: "libglxserver_nvidia.so.440.44", Tag: "opengl"},
		"nvidia_icd.json 0644 VULKAN_ICD_JSON icd.d/ MODULE:opengl":                                              {File: "nvidia_icd.json", Mode: 0o644, Type: "VULKAN_ICD_JSON", Path: "icd.d/", Tag: "opengl"},
		"nvidia_icd.json.template 0644 VULKAN_ICD_JSON MODULE:opengl":                                            {File: "nvidia_icd.json.template", Mode: 0o644, Type: "VULKAN_ICD_JSON", Tag: "opengl"},
		"nvidia-uninstall 0000 UTILITY_BIN_SYMLINK nvidia-installer MODULE:installer":                            {File: "nvidia-uninstall", Type: "UTILITY_BIN_SYMLINK", Target: "nvidia-installer", Tag: "installer"},
		"nvidia-modprobe 04755 NVIDIA_MODPROBE /usr/bin/ MODULE:installer":                                       {File: "nvidia-modprobe", Mode: 0o755 | fs.ModeSetuid, Type: "NVIDIA_MODPROBE", Path: "/usr/bin/", Tag: "installer"},
		"nvidia-modprobe.1.gz 0444 NVIDIA_MODPROBE_MANPAGE man1/ MODULE:installer":                               {File: "nvidia-modprobe.1.gz", Mode: 0o444, Type: "NVIDIA_MODPROBE_MANPAGE", Path: "man1/", Tag: "installer"},
		"nvidia-settings.desktop 0444 DOT_DESKTOP NVIDIA_GLX-1.0/ MODULE:xutils":                                 {File: "nvidia-settings.desktop", Mode: 0o444, Type: "DOT_DESKTOP", Path: "NVIDIA_GLX-1.0/", Tag: "xutils"},
		"supported-gpus/supported-gpus.json 0444 DOCUMENTATION NVIDIA_GLX-1.0/supported-gpus/ MODULE:installer":  {File: "supported-gpus/supported-gpus.json", Mode: 0o444, Type: "DOCUMENTATION", Path: "NVIDIA_GLX-1.0/supported-gpus/", Tag: "installer"},
		"./32/libglvnd_install_checker/glvnd_check 0755 INTERNAL_UTILITY_BINARY COMPAT32 MODULE:installer":       {File: "32/libglvnd_install_checker/glvnd_check", Mode: 0o755, Type: "INTERNAL_UTILITY_BINARY", Arch: runfile.Compat32, Tag: "installer"},
		"nvidia-drm_gbm.so 0000 GBM_BACKEND_LIB_SYMLINK NATIVE libnvidia-allocator.so.1 MODULE:nvalloc":          {File: "nvidia-drm_gbm.so", Type: "GBM_BACKEND_LIB_SYMLINK", Arch: runfile.Native, Target: "libnvidia-allocator.so.1", Tag: "nvalloc"},
		"nvidia-suspend.service 0000 SYSTEMD_UNIT_SYMLINK systemd-suspend.service.requires/ MODULE:powerd":       {File: "nvidia-suspend.service", Type: "SYSTEMD_UNIT_SYMLINK", Path: "systemd-suspend.service.requires/", Tag: "powerd"},
		"libcuda.so.440.44 0755 CUDA_LIB NATIVE /":                                                               {File: "libcuda.so.440.44", Mode: 0o755, Type: "CUDA_LIB", Arch: runfile.Native, Path: "/"},
		"libnvidia-vgpu.so 0000 VGX_LIB_SYMLINK libnvidia-vgpu.so.1 MODULE:vgpu":                                 {File: "libnvidia-vgpu.so", Type: "VGX_LIB_SYMLINK", Target: "libnvidia-vgpu.so.1", Tag: "vgpu"},
		"libgrid.so 0000 GRID_LIB_SYMLINK gridd/ libgrid.so.1 MODULE:vgpu":                                       {File: "libgrid.so", Type: "GRID_LIB_SYMLINK", Path: "gridd/", Target: "libgrid.so.1", Tag: "vgpu"},
	} {
		m, err := runfile.ParseManifest(".manifest", strings.NewReader(manifestHead+line+"\n"))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		want.Line = 9
		assert.Samef(t, []runfile.Entry{want}, m.Entries, "%s: -want +got", line)
	}
}

// A whole installed manifest for each generation of the format.
func TestInstallGolden(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.manifest")
	if err != nil || len(names) < 4 {
		t.Fatalf("manifests: %v, %v", names, err)
	}
	types := make(map[string]bool)
	for _, name := range names {
		m := parseFile(t, name)
		for _, e := range m.Entries {
			types[e.Type] = true
		}
		files, err := m.Install(debian)
		if err != nil {
			t.Error(err)
			continue
		}
		goldentest.Compare(t, strings.TrimSuffix(name, ".manifest")+".golden", render(m, files))
	}
	// The installer declared TLS_SYMLINK, but no known manifest has it.
	if want := 68; len(types) < want {
		t.Errorf("the manifests of testdata show %d types; want at least %d", len(types), want)
	}
}

func parseFile(t *testing.T, name string) *runfile.Manifest {
	t.Helper()
	f := require.Value(os.Open(name))(t)
	defer f.Close()
	return require.Value(runfile.ParseManifest(filepath.Base(name), f))(t)
}

func render(m *runfile.Manifest, files []runfile.File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s | %s | %s\n", m.Description, m.Version, strings.Join(m.Modules, ","))
	for _, f := range files {
		from := "= " + f.Source
		if f.Link != "" {
			from = "-> " + f.Link
		}
		notes := ""
		if f.Rewrite != nil {
			notes += " template"
		}
		fmt.Fprintf(&b, "%s %s %s [%s %s]%s\n", f.Mode, f.Path, from, f.Type, f.Tag, notes)
	}
	return b.String()
}

func TestParseManifestRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	for name, test := range map[string]struct {
		text, message string
		line          int
	}{
		"nothing":              {"", "within its 8 header lines", 0},
		"header alone":         {strings.Join(strings.Split(manifestHead, "\n")[:5], "\n"), "within its 8 header lines", 5},
		"no version":           {strings.Replace(manifestHead, "440.44", "latest", 1), "not a driver version", 2},
		"version climbs":       {strings.Replace(manifestHead, "440.44", "4/../../etc", 1), "not a driver version", 2},
		"odd module":           {strings.Replace(manifestHead, "nvidia-uvm", "nvidia;reboot", 1), "not a module name", 4},
		"unknown type":         {manifestHead + "x 0755 HOLOGRAM_LIB NATIVE\n", "unknown type", 9},
		"too new":              {strings.Replace(manifestHead, "440.44", "999.10", 1) + "x 0755 HOLOGRAM_LIB NATIVE\n", "a newer version of this program", 9},
		"too old":              {strings.Replace(manifestHead, "440.44", "340.108", 1) + "x 0755 TLS_OLD NATIVE\n", "driver 340.108 is too old", 9},
		"prefix alone":         {manifestHead + "x 0755 VGX_ NATIVE\n", "unknown type", 9},
		"two words":            {manifestHead + "x 0755\n", "2 words", 9},
		"mode not octal":       {manifestHead + "x 0798 CUDA_ICD\n", "not octal", 9},
		"mode too large":       {manifestHead + "x 10755 CUDA_ICD\n", "not octal", 9},
		"set-uid elsewhere":    {manifestHead + "x 04755 UTILITY_BINARY\n", "nvidia-modprobe", 9},
		"climbing file":        {manifestHead + "../x 0755 CUDA_ICD\n", "climbs", 9},
		"absolute file":        {manifestHead + "/etc/shadow 0755 CUDA_ICD\n", "absolute", 9},
		"no arch":              {manifestHead + "x 0755 CUDA_LIB / MODULE:y\n", "NATIVE", 9},
		"no path":              {manifestHead + "x 0755 CUDA_LIB NATIVE MODULE:y\n", "lacks its path", 9},
		"no target":            {manifestHead + "x 0000 CUDA_SYMLINK NATIVE / MODULE:y\n", "lacks its link target", 9},
		"no depth":             {manifestHead + "x 0644 FIRMWARE firmware/ MODULE:y\n", "INHERIT_PATH_DEPTH", 9},
		"negative depth":       {manifestHead + "x 0644 FIRMWARE INHERIT_PATH_DEPTH:-1 MODULE:y\n", "INHERIT_PATH_DEPTH", 9},
		"huge depth":           {manifestHead + "x 0644 FIRMWARE INHERIT_PATH_DEPTH:200 MODULE:y\n", "INHERIT_PATH_DEPTH", 9},
		"too many words":       {manifestHead + "x 0755 CUDA_LIB NATIVE / y z MODULE:y\n", `unexpected word "y"`, 9},
		"tag in the middle":    {manifestHead + "x 0755 CUDA_LIB NATIVE / MODULE:y z\n", "unexpected word", 9},
		"NUL":                  {manifestHead + "x\x00y 0755 CUDA_ICD\n", "unprintable", 9},
		"terminal escape":      {manifestHead + "x\x1b[2J 0755 CUDA_ICD\n", "unprintable", 9},
		"endless line":         {manifestHead + long + " 0755 CUDA_ICD\n", "4096", 9},
		"the second is broken": {manifestHead + "x 0755 CUDA_ICD\ny 0755 NOTHING\n", "unknown type", 10},
		"too many":             {manifestHead + strings.Repeat("x 0755 CUDA_ICD\n", 20001), "20000 entries", 20009},
	} {
		_, err := runfile.ParseManifest("the.manifest", strings.NewReader(test.text))
		if !errors.Is(err, runfile.ErrManifest) || !strings.Contains(err.Error(), test.message) || !strings.HasPrefix(err.Error(), fmt.Sprintf("the.manifest:%d: ", test.line)) {
			t.Errorf("%s: error %v; want line %d and %q", name, err, test.line, test.message)
		}
	}
	_, err := runfile.ParseManifest("m", strings.NewReader(manifestHead+"lib/x.so 0755 HOLOGRAM_LIB NATIVE\n"))
	if got, want := fmt.Sprint(err), `m:9: file "lib/x.so" of type "HOLOGRAM_LIB": unknown type`; !strings.HasPrefix(got, want) {
		t.Errorf("message %q; want it to begin with %q", got, want)
	}
}
