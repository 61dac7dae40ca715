package makeself

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	reader "github.com/driver-container/driver-container/images/runfile"
)

// TestFromTree: a tree that is packed into an archive and installed from it is unchanged, and nothing of another
// package is in it.
func TestFromTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const lib, version = "usr/lib/x86_64-linux-gnu/", "418.226.00"
	want := []string{
		"etc/OpenCL/vendors/nvidia.icd", "etc/vulkan/icd.d/nvidia_icd.json", "usr/bin/nvidia-modprobe", "usr/bin/nvidia-smi",
		"usr/bin/nvidia-uninstall -> nvidia-installer", lib + "gbm/nvidia-drm_gbm.so -> ../libnvidia-allocator.so.1",
		lib + "libcuda.so.1 -> libcuda.so." + version, lib + "libcuda.so." + version, lib + "libnvidia-allocator.so." + version,
		lib + "libvdpau_nvidia.so -> vdpau/libvdpau_nvidia.so." + version, lib + "nvidia/gridd/libgrid.so.1", lib + "nvidia/wine/_nvngx.dll",
		lib + "vdpau/libvdpau_nvidia.so." + version,
		"usr/share/man/man1/nvidia-smi.1.gz", "usr/share/nvidia-driver/firmware/nvidia/" + version + "/gsp.bin",
		"usr/src/nvidia-418.226.00/kernel-open/Makefile", "usr/src/nvidia-418.226.00/kernel/Makefile",
		"usr/src/nvidia-418.226.00/kernel/dkms.conf", "usr/src/nvidia-418.226.00/kernel/nvidia/nv.c",
	}
	others := []string{"etc/passwd", lib + "nvidia/current/libcuda.so.1", "usr/lib/firmware/nvidia/418 -> ../../../share", "usr/share/doc/copyright"}
	for _, path := range slices.Concat(want, others) {
		name, target, link := strings.Cut(path, " -> ")
		if link {
			target = "-> " + target
		}
		testfile.Write(t, dir+"/"+name, target)
	}
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		a, skipped, err := FromTree(os.DirFS(dir), version, "x86_64")
		require.NoError(t, err)
		assert.Equalf(t, len(others), len(skipped), "skipped: %q", skipped)
		a.Compression = compression
		out := filepath.Join(t.TempDir(), a.Name())
		require.NoError(t, a.WriteFile(t.Context(), out))
		assert.Same(t, []string{a.Name()}, testfile.List(t, filepath.Dir(out)))
		assert.Samef(t, want, installed(t, testfile.Read(t, out)), "%s: -want +got", compression)
	}
}

// installed reads an archive with the product's reader.
func installed(t *testing.T, archive string) (paths []string) {
	t.Helper()
	r := require.Value(reader.Open(strings.NewReader(archive)))(t)
	var m *reader.Manifest
	have := make(map[string]bool)
	require.NoError(t, r.Extract(nil, func(member reader.Member, content io.Reader) (err error) {
		have[member.Name] = true
		if member.Name == ".manifest" {
			m, err = reader.ParseManifest(member.Name, content)
		}
		return err
	}))
	layout := reader.Layout{LibDir: "usr/lib/x86_64-linux-gnu", FirmwareDir: "usr/share/nvidia-driver/firmware"}
	for _, f := range require.Value(m.Install(layout))(t) {
		if f.Link != "" {
			f.Path += " -> " + f.Link
		} else {
			assert.Equalf(t, true, have[f.Source], "%s: member %s", f.Path, f.Source)
		}
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	return paths
}

// TestEncode: the same input gives the same bytes, and what cannot be written leaves no file.
func TestEncode(t *testing.T) {
	t.Parallel()
	a := &Archive{Version: "1.2", Arch: "aarch64", Compression: "zstd", Decompressor: []byte("x\ny"), Members: []Member{
		{Name: "LICENSE", Mode: 0o444, Line: "DOCUMENTATION NVIDIA_GLX-1.0/ MODULE:installer", Size: 3, Open: Bytes([]byte("yes"))}}}
	data := require.Value(a.Encode(t.Context()))(t)
	assert.Equalf(t, true, bytes.Equal(data, require.Value(a.Encode(t.Context()))(t)), "two archives of one input")
	assert.Contains(t, string(data), "\nskip=24\nskip_decompress=22\nsize_decompress=2\n")
	assert.Contains(t, string(data), "\nTARGET_ARCH=\"aarch64\"\n")
	dir := t.TempDir()
	for _, a := range []*Archive{
		{Compression: "rot13"}, {Compression: "zstd", Members: []Member{{Name: "x", Size: 5, Open: Bytes([]byte("four"))}}},
	} {
		assert.Errorf(t, a.WriteFile(t.Context(), filepath.Join(dir, "x.run")), "%+v was written", a)
	}
	assert.Equal(t, 0, len(testfile.List(t, dir)))
}
