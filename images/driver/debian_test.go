package driver

import (
	"archive/tar"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
)

// take puts a file of a package into a driver.
func take(t *testing.T, name string, content []byte) (*Driver, error) {
	t.Helper()
	spool := require.Value(rootfs.NewSpool(t.TempDir()))(t)
	t.Cleanup(func() { _ = spool.Close() })
	pkg := rootfs.New(spool, nil)
	require.NoError(t, pkg.AddBytes(name, 0o644, content))
	d := &Driver{User: rootfs.New(spool, nil), Kernel: rootfs.New(spool, nil)}
	r := &recipe.Recipe{Driver: "535.261.03", Arch: "amd64", LibDir: "usr/lib/x86_64-linux-gnu"}
	return d, d.takeDebian(t.Context(), compression.FindXZ(), r, "nvidia-kernel-source", "535.261.03", pkg.All()[0])
}

// TestKernelArchive: damage in the archive of the kernel sources inside a package is wrong content.
func TestKernelArchive(t *testing.T) {
	t.Parallel()
	source := func(headers ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Typeflag = tar.TypeReg
			require.NoError(t, w.WriteHeader(&h))
		}
		return append(b.Bytes(), make([]byte, 1024)...)
	}
	good := repotest.Compress(t, ".xz", source(tar.Header{Name: "modules/nvidia/Kbuild"}))
	for name, c := range map[string]struct {
		archive []byte
		want    error
	}{
		"good":          {good, nil},
		"cut":           {good[:len(good)/2], runfile.ErrPayload},
		"end cut":       {good[:len(good)-8], runfile.ErrPayload},
		"changed":       {bytes.Replace(good, good[20:24], []byte{1, 2, 3, 4}, 1), runfile.ErrPayload},
		"not xz":        {[]byte("PK\x03\x04 and more"), runfile.ErrPayload},
		"not tar":       {repotest.Compress(t, ".xz", bytes.Repeat([]byte("no tar "), 1000)), runfile.ErrPayload},
		"escape":        {repotest.Compress(t, ".xz", source(tar.Header{Name: "modules/nvidia/a/../../../../x"})), runfile.ErrUnsafe},
		"whiteout":      {repotest.Compress(t, ".xz", source(tar.Header{Name: "modules/nvidia/.wh.Kbuild"})), rootfs.ErrUnsafePath},
		"file and less": {repotest.Compress(t, ".xz", source(tar.Header{Name: "modules/nvidia/nv.c", Size: 100_000})), runfile.ErrPayload},
	} {
		d, err := take(t, "usr/src/nvidia-kernel.tar.xz", c.archive)
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
		for _, e := range d.Kernel.All() {
			if !strings.HasPrefix(e.Path, "usr/src/nvidia-535.261.03/") {
				t.Errorf("%s: it makes %s", name, e.Path)
			}
		}
	}
}

// TestDocumentBounds: bounded are the list of GPUs and the files whose text is replaced.
func TestDocumentBounds(t *testing.T) {
	t.Parallel()
	const name = "usr/share/doc/nvidia-driver/supported-gpus.json.gz"
	for _, c := range []struct {
		data []byte
		want error
	}{{repotest.Compress(t, ".gz", []byte("{}")), nil}, {repotest.Compress(t, ".gz", make([]byte, maxInflated+1)), ErrContent}, {[]byte("no gzip"), ErrContent}} {
		if _, err := take(t, name, c.data); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%d bytes: %v; want %v", len(c.data), err, c.want)
		}
	}
	spool := require.Value(rootfs.NewSpool(t.TempDir()))(t)
	t.Cleanup(func() { _ = spool.Close() })
	raw, tree := rootfs.New(spool, nil), rootfs.New(spool, nil)
	require.NoError(t, raw.AddBytes("template", 0o644, make([]byte, maxTemplate+1)))
	file := runfile.File{Path: "usr/share/x", Source: "template", Rewrite: bytes.ToUpper}
	assert.ErrorIsf(t, takeFile(tree, raw, file), ErrContent, "a large template")
}
