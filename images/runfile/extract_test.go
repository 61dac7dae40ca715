package runfile_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/makeself"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/runfile"
)

// sample is a small driver: text, incompressible bytes of more than one buffer, an empty file, folders. It is
// this small because the xz encoder is slow under the race detector.
func sample(compression string) *makeself.Archive {
	noise := make([]byte, 300<<10)
	random := rand.NewChaCha8([32]byte{7})
	random.Read(noise) //nolint:errcheck // does not fail
	file := func(name, line string, mode fs.FileMode, content []byte) makeself.Member {
		return makeself.Member{Name: name, Mode: mode, Line: line, Size: int64(len(content)), Open: makeself.Bytes(content)}
	}
	return &makeself.Archive{Version: "440.44", Arch: "x86_64", Compression: compression, Members: []makeself.Member{
		file("libcuda.so.440.44", "CUDA_LIB NATIVE / MODULE:gpgpu", 0o755, noise),
		{Name: "libcuda.so.1", Line: "CUDA_SYMLINK NATIVE / libcuda.so.440.44 MODULE:gpgpu"},
		file("32/libcuda.so.440.44", "CUDA_LIB COMPAT32 / MODULE:gpgpu", 0o755, noise[:1000]),
		file("kernel/nvidia/nv.c", "KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman", 0o644, bytes.Repeat([]byte("int x;\n"), 2e4)),
		file("kernel/empty.h", "KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman", 0o644, nil),
		file("nvidia-modprobe", "NVIDIA_MODPROBE /usr/bin/ MODULE:installer", 0o755, []byte("ELF")),
		file("pkg-history.txt", "", 0o644, []byte("not in the manifest")),
	}}
}

func encode(t testing.TB, a *makeself.Archive) []byte {
	t.Helper()
	return require.Value(a.Encode(t.Context()))(t)
}

// extract opens and extracts an archive, and returns the digest of each member.
func extract(t testing.TB, r io.Reader) (map[string]string, error) {
	t.Helper()
	x, err := runfile.Open(r)
	if err != nil {
		return nil, err
	}
	got := make(map[string]string)
	return got, x.Extract(nil, func(m runfile.Member, content io.Reader) error {
		h := sha256.New()
		n, err := io.Copy(h, content)
		if err == nil && n != m.Size {
			t.Errorf("%s has %d bytes; want %d", m.Name, n, m.Size)
		}
		got[m.Name] = fmt.Sprintf("%s %x", m.Mode, h.Sum(nil))
		return err
	})
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		for name, decompressor := range map[string][]byte{"none": nil, "text": []byte("a\nb"), "binary": []byte("\x7fELF\n\n\x00\n")} {
			t.Run(compression+"/"+name, func(t *testing.T) {
				t.Parallel()
				a := sample(compression)
				a.Decompressor, a.Trailer = decompressor, bytes.Repeat([]byte{0}, 400<<10)
				got := require.Value(extract(t, iotest.HalfReader(bytes.NewReader(encode(t, a)))))(t)
				delete(got, ".manifest")
				assert.Samef(t, members(t, a), got, "members, -want +got")
			})
		}
	}
}

func members(t *testing.T, a *makeself.Archive) map[string]string {
	t.Helper()
	want := make(map[string]string)
	for _, m := range a.Members {
		if m.Open == nil {
			continue
		}
		r := require.Value(m.Open())(t)
		h := sha256.New()
		require.Value(io.Copy(h, r))(t)
		want[m.Name] = fmt.Sprintf("%s %x", m.Mode, h.Sum(nil))
	}
	return want
}

// TestDamage: an archive that is cut or changed is refused, or its members are as they were: whether the file is
// the pinned one, its caller knows.
func TestDamage(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		data := encode(t, sample(compression))
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		start := bytes.Index(data, []byte("TARGET_ARCH=")) + 1000
		for range 8 {
			at := start + random.IntN(len(data)-start)
			flipped := bytes.Clone(data)
			flipped[at] ^= 1 << random.IntN(8)
			if _, err := extract(t, bytes.NewReader(flipped)); err != nil && !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
				t.Errorf("bit flipped in byte %d of %d: error %v is of no kind", at, len(data), err)
			}
			_, err := extract(t, bytes.NewReader(data[:at]))
			assert.ErrorIsf(t, err, runfile.ErrPayload, "cut at byte %d of %d", at, len(data))
		}
	}
}

var kinds = []error{runfile.ErrHeader, runfile.ErrPayload, runfile.ErrUnsafe, runfile.ErrTooLarge}

// hostile returns an archive with the given tar members.
func hostile(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		require.NoError(t, w.WriteHeader(&h))
		require.Value(w.Write(make([]byte, h.Size)))(t)
	}
	return withTar(t, b.Bytes())
}

// withTar returns an archive whose payload is data. The generator's own tar has only its end, which is cut
// off.
func withTar(t testing.TB, data []byte) []byte {
	t.Helper()
	return encode(t, &makeself.Archive{Version: "440.44", Arch: "x86_64", Compression: "zstd", RawTar: data})
}

func TestHostileTar(t *testing.T) {
	t.Parallel()
	file := func(name string) tar.Header { return tar.Header{Name: name, Mode: 0o644, Size: 3} }
	for name, test := range map[string]struct {
		data []byte
		kind error
	}{
		"absolute":          {hostile(t, file("/etc/passwd")), runfile.ErrUnsafe},
		"climbing":          {hostile(t, file("./../../etc/passwd")), runfile.ErrUnsafe},
		"climbing inside":   {hostile(t, file("./a/../b")), runfile.ErrUnsafe},
		"climbing folder":   {hostile(t, tar.Header{Name: "../x/", Typeflag: tar.TypeDir}), runfile.ErrUnsafe},
		"symlink":           {hostile(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b"}), runfile.ErrUnsafe},
		"hard link":         {hostile(t, file("b"), tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "b"}), runfile.ErrUnsafe},
		"device":            {hostile(t, tar.Header{Name: "a", Typeflag: tar.TypeBlock}), runfile.ErrUnsafe},
		"pipe":              {hostile(t, tar.Header{Name: "a", Typeflag: tar.TypeFifo}), runfile.ErrUnsafe},
		"a name twice":      {hostile(t, file("./a"), file("a")), runfile.ErrUnsafe},
		"file and folder":   {hostile(t, file("a"), tar.Header{Name: "a/", Typeflag: tar.TypeDir}), runfile.ErrUnsafe},
		"below a file":      {hostile(t, file("a"), file("a/b")), runfile.ErrUnsafe},
		"above a file":      {hostile(t, file("a/b"), file("a")), runfile.ErrUnsafe},
		"backslash":         {hostile(t, file(`a\b`)), runfile.ErrUnsafe},
		"newline":           {hostile(t, file("a\nb")), runfile.ErrUnsafe},
		"deep":              {hostile(t, file(strings.Repeat("a/", 40)+"b")), runfile.ErrUnsafe},
		"long":              {hostile(t, file(strings.Repeat("a", 2000))), runfile.ErrUnsafe},
		"the top as a file": {hostile(t, file(".")), runfile.ErrUnsafe},
		"no tar":            {withTar(t, bytes.Repeat([]byte("no tar "), 1000)), runfile.ErrPayload},
		"tar cut off":       {withTar(t, payloadOf(t, file("a"))[:600-90]), runfile.ErrPayload},
		"empty":             {withTar(t, make([]byte, 1024)), runfile.ErrPayload},
	} {
		got, err := extract(t, bytes.NewReader(test.data))
		assert.ErrorIsf(t, err, test.kind, "%s", name)
		for name := range got {
			if !inside(name) {
				t.Errorf("%s was handed out", name)
			}
		}
	}
}

func payloadOf(t *testing.T, h tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h.Typeflag, h.Size = tar.TypeReg, 0
	require.NoError(t, w.WriteHeader(&h))
	return append(b.Bytes(), bytes.Repeat([]byte{1}, 512)...)
}

func TestUnknownCompression(t *testing.T) {
	t.Parallel()
	_, err := extract(t, bytes.NewReader(encode(t, sample("none"))))
	assert.ErrorIs(t, err, runfile.ErrPayload)
	assert.ErrorContains(t, err, "neither gzip")
}

func TestExtractStops(t *testing.T) {
	t.Parallel()
	data := encode(t, sample("zstd"))
	ignore := func(runfile.Member, io.Reader) error { return nil }
	open := func(r io.Reader) *runfile.Reader { return require.Value(runfile.Open(r))(t) }
	full := errors.New("disk full")
	assert.ErrorIs(t, open(bytes.NewReader(data)).Extract(nil, func(runfile.Member, io.Reader) error { return full }), full)
	err := open(io.MultiReader(bytes.NewReader(data[:len(data)/2]), iotest.ErrReader(errBroken))).Extract(nil, ignore)
	if !errors.Is(err, errBroken) || errors.Is(err, runfile.ErrPayload) {
		t.Errorf("error %v; want the reader's", err)
	}
	assert.NoErrorf(t, open(bytes.NewReader(data)).Extract(nil, ignore), "content not read by the callback")
}

// FuzzUnpack: whatever a tar holds, its members have safe names, each once.
func FuzzUnpack(f *testing.F) {
	for _, h := range []tar.Header{
		{Name: "./kernel/", Typeflag: tar.TypeDir}, {Name: "./a", Typeflag: tar.TypeReg, Size: 3},
		{Name: strings.Repeat("long/", 30) + "x", Typeflag: tar.TypeReg, Format: tar.FormatGNU}, {Name: "a", Linkname: "/etc", Typeflag: tar.TypeSymlink},
		{Name: "x", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"path": "../x"}, Format: tar.FormatPAX},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(f, w.WriteHeader(&h))
		require.Value(w.Write(make([]byte, h.Size)))(f)
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var compressed bytes.Buffer
		z := gzip.NewWriter(&compressed)
		require.Value(z.Write(data))(t)
		require.NoError(t, z.Close())
		for _, links := range []bool{false, true} {
			seen := map[string]bool{}
			err := runfile.Unpack(bytes.NewReader(compressed.Bytes()), nil, links, func(m runfile.Member, content io.Reader) error {
				if seen[m.Name] || !inside(m.Name) || m.Mode&^fs.ModePerm != 0 || m.Link != "" && !links {
					t.Errorf("handed out %+v", m)
				}
				seen[m.Name] = true
				_, err := io.Copy(io.Discard, content)
				return err
			})
			if err != nil && !slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
				t.Errorf("error %v is of no kind", err)
			}
		}
	})
}

// Every goroutine of an extraction must end with it, also after failures.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
