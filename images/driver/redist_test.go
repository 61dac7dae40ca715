package driver

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/runfile"
)

const fabricTop = "fabricmanager-linux-sbsa-580.178.04-archive"

// list extracts an archive of these members and returns its members as text.
func list(t *testing.T, headers ...tar.Header) (all []string, err error) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(&h))
		require.Value(w.Write(make([]byte, h.Size)))(t)
	}
	require.NoError(t, w.Close())
	err = extractRedist(bytes.NewReader(repotest.Compress(t, ".xz", b.Bytes())), nil, []string{"fabricmanager"}, "580.178.04", "arm64", func(m runfile.Member, r io.Reader) error {
		n, err := io.Copy(io.Discard, r)
		all = append(all, fmt.Sprintf("%s %o %d/%d %s", m.Name, m.Mode, n, m.Size, m.Link))
		return err
	})
	return all, err
}

func TestExtractRedist(t *testing.T) {
	t.Parallel()
	got := require.Value(list(t,
		tar.Header{Typeflag: tar.TypeDir, Name: fabricTop + "/", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeDir, Name: fabricTop + "/lib/", Mode: 0o755},
		tar.Header{Name: fabricTop + "/lib/libnvfm.so.1", Mode: 0o4755, Size: 9},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "./" + fabricTop + "/lib/libnvfm.so", Linkname: "libnvfm.so.1", Mode: 0o777},
	))(t)
	assert.Samef(t, []string{"lib/libnvfm.so.1 755 9/9 ", "lib/libnvfm.so 777 0/0 libnvfm.so.1"}, got, "members")
}

// TestExtractRedistRefuses has what belongs to these archives; what is hostile in any is in package runfile.
func TestExtractRedistRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		members []tar.Header
		kind    error
		want    string
	}{
		{[]tar.Header{{Name: "x/a"}}, ErrContent, "the archive is"},
		{[]tar.Header{{Name: "fabricmanager-linux-ppc64le-1.2-archive/a"}}, ErrContent, "the archive is"},
		{[]tar.Header{{Name: fabricTop + "/a"}, {Name: "b/a"}}, ErrContent, "beside the top folder"},
		{[]tar.Header{{Name: fabricTop}}, ErrContent, "beside the top folder"},
		{[]tar.Header{{Name: fabricTop + "/../../a"}}, runfile.ErrUnsafe, "climbs"},
		{nil, runfile.ErrPayload, "empty"},
	} {
		_, err := list(t, c.members...)
		assert.ErrorIs(t, err, c.kind)
		assert.ErrorContains(t, err, c.want)
	}
}

// TestRunName covers the folders of a driver's archive, and the names that they have in a .run archive.
func TestRunName(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{
		"bin/nvidia-bug-report.sh": "nvidia-bug-report.sh", "sbin/nvidia-smi": "nvidia-smi", "lib/libcuda.so.580.178.04": "libcuda.so.580.178.04",
		"lib32/libcuda.so.1": "32/libcuda.so.1", "32/libcuda.so.1": "32/libcuda.so.1", "etc/nvidia_icd.json": "nvidia_icd.json", "man/man1/nvidia-smi.1.gz": "nvidia-smi.1.gz",
		"wine/nvngx.dll": "nvngx.dll", "docs/index.html": "html/index.html", "tests/glvnd/glvnd_check": "libglvnd_install_checker/glvnd_check", "MANIFEST": ".manifest",
		"README": "README.txt", "CHANGELOG": "NVIDIA_Changelog", "LICENSE": "LICENSE", "kernel-open/nvidia/nv.c": "kernel-open/nvidia/nv.c",
		"firmware/gsp_ga10x.bin": "firmware/gsp_ga10x.bin", "supported-gpus/supported-gpus.json": "supported-gpus/supported-gpus.json", "systemd/system/a.service": "systemd/system/a.service",
	} {
		assert.Equalf(t, to, runName(from), "%s", from)
	}
}
