package makeself

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	reader "github.com/driver-container/driver-container/images/runfile"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	const lib, lib32, v = "usr/lib/x86_64-linux-gnu/", "usr/lib/i386-linux-gnu/", "535.261.03"
	for _, test := range []struct{ name, target, member, line string }{
		{lib + "libcuda.so." + v, "", "libcuda.so." + v, "CUDA_LIB NATIVE / MODULE:gpgpu"},
		{lib + "libcuda.so.1", "libcuda.so." + v, "libcuda.so.1", "CUDA_SYMLINK NATIVE / libcuda.so." + v + " MODULE:gpgpu"},
		{lib32 + "libcuda.so." + v, "", "32/libcuda.so." + v, "CUDA_LIB COMPAT32 / MODULE:gpgpu"},
		{"usr/lib/aarch64-linux-gnu/libnvidia-ml.so." + v, "", "libnvidia-ml.so." + v, "CUDA_LIB NATIVE / MODULE:nvml"},
		{"usr/lib64/libnvidia-opencl.so.1", "libnvidia-opencl.so." + v, "libnvidia-opencl.so.1", "OPENCL_LIB_SYMLINK NATIVE / libnvidia-opencl.so." + v + " MODULE:gpgpu"},
		{lib + "libOpenCL.so.1", "libOpenCL.so.1.0.0", "libOpenCL.so.1", "OPENCL_WRAPPER_SYMLINK NATIVE / libOpenCL.so.1.0.0 MODULE:gpgpu"},
		{lib + "libnvcuvid.so.1", "libnvcuvid.so." + v, "libnvcuvid.so.1", "NVCUVID_LIB_SYMLINK NATIVE libnvcuvid.so." + v + " MODULE:nvcuvid"},
		{lib + "libGLX_nvidia.so.0", "libGLX_nvidia.so." + v, "libGLX_nvidia.so.0", "OPENGL_SYMLINK NATIVE libGLX_nvidia.so." + v + " MODULE:opengl"},
		{lib + "vdpau/libvdpau_nvidia.so." + v, "", "libvdpau_nvidia.so." + v, "VDPAU_LIB NATIVE vdpau/ MODULE:vdpau"},
		{lib + "libvdpau_nvidia.so", "vdpau/libvdpau_nvidia.so." + v, "libvdpau_nvidia.so", "VDPAU_SYMLINK NATIVE / vdpau/libvdpau_nvidia.so." + v + " MODULE:vdpau"},
		{lib + "gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1", "nvidia-drm_gbm.so", "GBM_BACKEND_LIB_SYMLINK NATIVE libnvidia-allocator.so.1 MODULE:nvalloc"},
		{lib + "nvidia/wine/_nvngx.dll", "", "_nvngx.dll", "WINE_LIB NATIVE MODULE:ngx"},
		{"usr/bin/nvidia-smi", "", "nvidia-smi", "UTILITY_BINARY MODULE:nvml"},
		{"usr/bin/nvidia-uninstall", "nvidia-installer", "nvidia-uninstall", "UTILITY_BIN_SYMLINK nvidia-installer MODULE:installer"},
		{"usr/bin/nvidia-modprobe", "", "nvidia-modprobe", "NVIDIA_MODPROBE /usr/bin/ MODULE:installer"},
		{"usr/src/nvidia-" + v + "/kernel/nvidia/nv.c", "", "kernel/nvidia/nv.c", "KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman"},
		{"kernel-open/dkms.conf", "", "kernel-open/dkms.conf", "DKMS_CONF INHERIT_PATH_DEPTH:1 MODULE:open_resman"},
		{"lib/firmware/nvidia/" + v + "/gsp_tu10x.bin", "", "firmware/gsp_tu10x.bin", "FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp"},
		{"etc/vulkan/icd.d/nvidia_icd.json", "", "nvidia_icd.json", "VULKAN_ICD_JSON icd.d/ MODULE:opengl"},
		{"licenses/LICENSE", "", "LICENSE", "DOCUMENTATION NVIDIA_GLX-1.0/ MODULE:installer"},
		{"usr/share/nvidia-driver/supported-gpus.json", "", "supported-gpus/supported-gpus.json", "DOCUMENTATION NVIDIA_GLX-1.0/supported-gpus/ MODULE:installer"},
		{"usr/share/man/man1/nvidia-smi.1.gz", "", "nvidia-smi.1.gz", "MANPAGE man1/ MODULE:nvml"},
		{"usr/share/doc/libcuda1/copyright", "", "", ""},
		{"usr/lib/firmware/nvidia/" + v, "../../../share", "", ""},
		{lib + "nvidia/current/libcuda.so.1", "", "", ""},
		{"etc/passwd", "", "", ""},
	} {
		member, line, ok := Classify(test.name, test.target, v)
		if member != test.member || line != test.line || ok != (test.member != "") {
			t.Errorf("Classify(%q, %q) = %q, %q, %v; want %q, %q", test.name, test.target, member, line, ok, test.member, test.line)
		}
	}
}

// A tree that is packed into an archive and installed from it is unchanged.
func TestFromTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const lib = "usr/lib/x86_64-linux-gnu/"
	want := []string{
		"etc/OpenCL/vendors/nvidia.icd", "usr/bin/nvidia-smi", lib + "gbm/nvidia-drm_gbm.so -> ../libnvidia-allocator.so.1",
		lib + "libcuda.so.1 -> libcuda.so.418.226.00", lib + "libcuda.so.418.226.00", lib + "libnvidia-allocator.so.418.226.00",
		"usr/share/nvidia-driver/firmware/nvidia/418.226.00/gsp.bin",
		"usr/src/nvidia-418.226.00/kernel/Makefile", "usr/src/nvidia-418.226.00/kernel/dkms.conf", "usr/src/nvidia-418.226.00/kernel/nvidia/nv.c",
	}
	for _, entry := range append(want, "usr/share/doc/copyright") {
		name, target, link := strings.Cut(entry, " -> ")
		text := name
		if link {
			text = "-> " + target
		}
		testfile.Write(t, dir+"/"+name, text)
	}
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		a, skipped, err := FromTree(os.DirFS(dir), "418.226.00", "x86_64")
		if err != nil || !slices.Equal(skipped, []string{"usr/share/doc/copyright"}) {
			t.Fatalf("skipped %v, error %v", skipped, err)
		}
		a.Compression = compression
		out := filepath.Join(t.TempDir(), a.Name())
		require.NoError(t, a.WriteFile(t.Context(), out))
		if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) != 1 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		assert.Samef(t, want, installed(t, out), "%s: -want +got", compression)
	}
}

// installed reads an archive with the product's reader.
func installed(t *testing.T, name string) []string {
	t.Helper()
	f := require.Value(os.Open(name))(t)
	defer f.Close()
	r := require.Value(reader.Open(f))(t)
	var m *reader.Manifest
	have := make(map[string]bool)
	require.NoError(t, r.Extract(nil, func(member reader.Member, content io.Reader) (err error) {
		have[member.Name] = true
		if member.Name == ".manifest" {
			m, err = reader.ParseManifest(member.Name, content)
		}
		return err
	}))
	files := require.Value(m.Install(reader.Layout{LibDir: "usr/lib/x86_64-linux-gnu", FirmwareDir: "usr/share/nvidia-driver/firmware"}))(t)
	var paths []string
	for _, f := range files {
		if f.Link != "" {
			f.Path += " -> " + f.Link
		} else if !have[f.Source] {
			t.Errorf("%s: no member %s", f.Path, f.Source)
		}
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	return paths
}

// The same input gives the same bytes.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	var last []byte
	for range 2 {
		a := &Archive{Version: "1.2", Arch: "aarch64", Compression: "zstd", Decompressor: []byte("x\ny"), Members: []Member{
			{Name: "LICENSE", Mode: 0o444, Line: "DOCUMENTATION NVIDIA_GLX-1.0/ MODULE:installer", Size: 3, Open: Bytes([]byte("yes"))}}}
		data := require.Value(a.Encode(t.Context()))(t)
		if last != nil && !bytes.Equal(last, data) {
			t.Error("two archives of one input differ")
		}
		last = data
	}
	if !bytes.Contains(last, []byte("\nskip=24\nskip_decompress=22\nsize_decompress=2\n")) || !bytes.Contains(last, []byte("\nTARGET_ARCH=\"aarch64\"\n")) {
		t.Errorf("head:\n%s", last[:500])
	}
}

func TestWriteFileFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := errors.New("gone")
	for _, a := range []*Archive{
		{Compression: "rot13"},
		{Compression: "zstd", Members: []Member{{Name: "x", Size: 5, Open: Bytes([]byte("four"))}}},
		{Compression: "xz", Members: []Member{{Name: "x", Open: func() (io.ReadCloser, error) { return nil, broken }}}},
	} {
		assert.Errorf(t, a.WriteFile(t.Context(), filepath.Join(dir, "x.run")), "%+v was written", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&Archive{Compression: "gzip"}).WriteFile(ctx, filepath.Join(dir, "x.run")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want the cancellation", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// On machines without the xz program the library makes the same format.
func TestXZLibrary(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := require.Value(xzLibrary(&b))(t)
	require.Value(w.Write([]byte("content")))(t)
	require.NoError(t, w.Close())
	const check = 7 // the byte of the stream header that names the integrity check
	if b.Bytes()[check] != 0 {
		t.Errorf("integrity check %d; want none", b.Bytes()[check])
	}
	r := require.Value(xz.NewReader(&b))(t)
	assert.Equalf(t, "content", string(require.Value(io.ReadAll(r))(t)), "read back")
}
