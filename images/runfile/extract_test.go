package runfile_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/makeself"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/unxz"
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
	return &makeself.Archive{Version: "440.44", Arch: "x86_64", Compression: compression, Fast: true, Members: []makeself.Member{
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
func extract(t testing.TB, r io.Reader, l runfile.Limits) (map[string]string, runfile.Sums, error) {
	t.Helper()
	return extractXZ(t, r, l, nil)
}

// extractXZ is extract with a way to open .xz payloads; nil: in Go.
func extractXZ(t testing.TB, r io.Reader, l runfile.Limits, open unxz.Open) (map[string]string, runfile.Sums, error) {
	t.Helper()
	x, err := runfile.OpenLimited(r, l)
	if err != nil {
		return nil, runfile.Sums{}, err
	}
	x.XZ = open
	got := make(map[string]string)
	sums, err := x.Extract(t.Context(), func(name string, mode fs.FileMode, size int64, content io.Reader) error {
		h := sha256.New()
		n, err := io.Copy(h, content)
		if err == nil && n != size {
			t.Errorf("%s has %d bytes; want %d", name, n, size)
		}
		got[name] = fmt.Sprintf("%s %x", mode, h.Sum(nil))
		return err
	})
	return got, sums, err
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		for name, decompressor := range map[string][]byte{"none": nil, "text": []byte("a\nb"), "binary": []byte("\x7fELF\n\n\x00\n")} {
			t.Run(compression+"/"+name, func(t *testing.T) {
				t.Parallel()
				a := sample(compression)
				a.Decompressor = decompressor
				data := encode(t, a)
				got, sums, err := extract(t, iotest.HalfReader(bytes.NewReader(data)), runfile.Limits{})
				require.NoError(t, err)
				delete(got, ".manifest")
				assert.Samef(t, members(t, a), got, "members, -want +got")
				digest := sha256.Sum256(data)
				assert.Equalf(t, (runfile.Sums{SHA256: hex.EncodeToString(digest[:]), Size: int64(len(data))}), sums, "sums")
			})
		}
	}
}

// TestProgram: the machine's xz program gives the same members, sums and errors.
func TestProgram(t *testing.T) {
	t.Parallel()
	program := unxz.Find()
	if program == "" {
		t.Skip("there is no xz program")
	}
	a := sample("xz")
	a.Decompressor = []byte("a\nb")
	good := encode(t, a)
	changed := bytes.Clone(good)
	changed[len(changed)/2] ^= 1
	for name, data := range map[string][]byte{"good": good, "changed": changed, "cut": good[:len(good)-20], "longer": append(bytes.Clone(good), "more"...)} {
		got, sums, err := extractXZ(t, bytes.NewReader(data), runfile.Limits{}, program.Open(t.Context()))
		want, wantSums, wantErr := extract(t, bytes.NewReader(data), runfile.Limits{})
		assert.Equalf(t, wantErr == nil, err == nil, "%s: error %v, in Go %v", name, err, wantErr)
		assert.Equalf(t, wantSums, sums, "%s: sums", name)
		if err == nil {
			assert.Samef(t, want, got, "%s: members, -want +got", name)
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

// The generated manifest installs the files that the generator got.
func TestRoundTripManifest(t *testing.T) {
	t.Parallel()
	x := require.Value(runfile.Open(bytes.NewReader(encode(t, sample("zstd")))))(t)
	var m *runfile.Manifest
	require.Value(x.Extract(t.Context(), func(name string, _ fs.FileMode, _ int64, content io.Reader) (err error) {
		if name == runfile.ManifestName {
			m, err = runfile.ParseManifest(name, content)
		}
		return err
	}))(t)
	files := require.Value(m.Install(debian))(t)
	var got []string
	for _, f := range files {
		got = append(got, f.Mode.String()+" "+f.Path+" "+f.Source+f.Link)
	}
	want := []string{
		"-rwxr-xr-x usr/lib/x86_64-linux-gnu/libcuda.so.440.44 libcuda.so.440.44",
		"Lrwxrwxrwx usr/lib/x86_64-linux-gnu/libcuda.so.1 libcuda.so.440.44",
		"-rwxr-xr-x usr/lib/i386-linux-gnu/libcuda.so.440.44 32/libcuda.so.440.44",
		"-rw-r--r-- usr/src/nvidia-440.44/kernel/nvidia/nv.c kernel/nvidia/nv.c",
		"-rw-r--r-- usr/src/nvidia-440.44/kernel/empty.h kernel/empty.h",
		"urwxr-xr-x usr/bin/nvidia-modprobe nvidia-modprobe",
	}
	assert.Same(t, want, got)
}

func TestVariants(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		a := sample(compression)
		a.NoMD5, a.Trailer = true, bytes.Repeat([]byte{0}, 400<<10)
		data := encode(t, a)
		if _, sums, err := extract(t, bytes.NewReader(data), runfile.Limits{}); err != nil || sums.Size != int64(len(data)) {
			t.Errorf("%s without MD5, with a long end: %v", compression, err)
		}
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		t.Run(compression, func(t *testing.T) {
			t.Parallel()
			data := encode(t, sample(compression))
			random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
			start := bytes.Index(data, []byte("label="))
			for range 8 {
				at := start + 600 + random.IntN(len(data)-start-600)
				flipped := bytes.Clone(data)
				flipped[at] ^= 1 << random.IntN(8)
				if _, _, err := extract(t, bytes.NewReader(flipped), runfile.Limits{}); !errors.Is(err, runfile.ErrChecksum) {
					t.Errorf("bit flipped in byte %d of %d: error %v; want ErrChecksum", at, len(data), err)
				}
				if _, _, err := extract(t, bytes.NewReader(data[:at]), runfile.Limits{}); !errors.Is(err, runfile.ErrChecksum) {
					t.Errorf("cut at byte %d of %d: error %v; want ErrChecksum", at, len(data), err)
				}
			}
			if _, _, err := extract(t, bytes.NewReader(append(bytes.Clone(data), "more"...)), runfile.Limits{}); !errors.Is(err, runfile.ErrChecksum) {
				t.Errorf("with bytes behind: error %v; want ErrChecksum", err)
			}
			md5 := bytes.Replace(data, []byte("MD5="), []byte("MD5=f"), 1)
			end := bytes.Index(md5, []byte("\nskip="))
			md5 = append(md5[:end-1:end-1], md5[end:]...)
			_, _, err := extract(t, bytes.NewReader(md5), runfile.Limits{})
			if sum, ok := errors.AsType[*runfile.ChecksumError](err); !ok || sum.Sum != "MD5" || sum.Cause != nil {
				t.Errorf("with another MD5: error %v; want a ChecksumError of MD5", err)
			}
		})
	}
}

// hostile returns an archive with right sums and the given tar members.
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
	return encode(t, &makeself.Archive{Version: "440.44", Arch: "x86_64", Compression: "zstd", Fast: true, RawTar: data})
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
		got, sums, err := extract(t, bytes.NewReader(test.data), runfile.Limits{})
		if !errors.Is(err, test.kind) || errors.Is(err, runfile.ErrChecksum) {
			t.Errorf("%s: error %v; want %v", name, err, test.kind)
		}
		if sums.Size != int64(len(test.data)) {
			t.Errorf("%s: sums of %d bytes; want %d", name, sums.Size, len(test.data))
		}
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

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		a := sample(compression)
		a.Decompressor = bytes.Repeat([]byte("x"), 100<<10)
		data := encode(t, a)
		for name, l := range map[string]runfile.Limits{
			"content": {Content: 256 << 10}, "members": {Members: 3}, "stub": {Stub: 64 << 10},
		} {
			if _, _, err := extract(t, bytes.NewReader(data), l); !errors.Is(err, runfile.ErrTooLarge) {
				t.Errorf("%s, %s: error %v; want ErrTooLarge", compression, name, err)
			}
		}
		if _, _, err := extract(t, bytes.NewReader(data), runfile.Limits{Window: 64 << 10}); compression != "gzip" && !errors.Is(err, runfile.ErrTooLarge) {
			t.Errorf("%s, window: error %v; want ErrTooLarge", compression, err)
		}
	}
	// A bomb after the end of the tar counts too.
	a := sample("zstd")
	a.Trailer = make([]byte, 32<<20)
	if _, _, err := extract(t, bytes.NewReader(encode(t, a)), runfile.Limits{Content: 16 << 20}); !errors.Is(err, runfile.ErrTooLarge) {
		t.Errorf("bomb behind the tar: error %v; want ErrTooLarge", err)
	}
}

func TestUnknownCompression(t *testing.T) {
	t.Parallel()
	a := sample("none")
	if _, _, err := extract(t, bytes.NewReader(encode(t, a)), runfile.Limits{}); !errors.Is(err, runfile.ErrPayload) || !strings.Contains(err.Error(), "neither gzip") {
		t.Errorf("plain tar: error %v; want ErrPayload", err)
	}
}

func TestExtractStops(t *testing.T) {
	t.Parallel()
	data := encode(t, sample("zstd"))
	open := func(r io.Reader) *runfile.Reader {
		return require.Value(runfile.Open(r))(t)
	}
	ignore := func(string, fs.FileMode, int64, io.Reader) error { return nil }

	full := errors.New("disk full")
	if _, err := open(bytes.NewReader(data)).Extract(t.Context(), func(string, fs.FileMode, int64, io.Reader) error { return full }); !errors.Is(err, full) {
		t.Errorf("error %v; want the callback's", err)
	}
	cut := io.MultiReader(bytes.NewReader(data[:len(data)/2]), iotest.ErrReader(errBroken))
	if _, err := open(cut).Extract(t.Context(), ignore); !errors.Is(err, errBroken) || errors.Is(err, runfile.ErrChecksum) {
		t.Errorf("error %v; want the reader's", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow := &stalling{r: bytes.NewReader(data[:len(data)/2]), then: cancel}
	start := time.Now()
	if _, err := open(slow).Extract(ctx, ignore); !errors.Is(err, context.Canceled) || time.Since(start) > time.Minute {
		t.Errorf("error %v after %v; want the cancellation at once", err, time.Since(start))
	}
	x := open(bytes.NewReader(data))
	if _, err := x.Extract(t.Context(), ignore); err != nil {
		t.Errorf("content not read by the callback: %v", err)
	}
	assert.Errorf(t, assert.Err(x.Extract(t.Context(), ignore)), "a second Extract succeeded")
}

// stalling delivers r, then cancels and continues with zeros, slowly.
type stalling struct {
	r    io.Reader
	then context.CancelFunc
}

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if errors.Is(err, io.EOF) {
		s.then()
		time.Sleep(time.Millisecond)
		return 1, nil
	}
	return n, err
}

func FuzzExtract(f *testing.F) {
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		a := sample(compression)
		a.Members = a.Members[3:]
		f.Add(encode(f, a))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, _, err := extract(t, bytes.NewReader(data), runfile.Limits{Content: 1 << 20, Members: 100, Window: 8 << 20, Stub: 1 << 20})
		for name := range got {
			if !inside(name) {
				t.Errorf("%q was handed out", name)
			}
		}
		kinds := []error{runfile.ErrHeader, runfile.ErrChecksum, runfile.ErrPayload, runfile.ErrUnsafe, runfile.ErrTooLarge}
		for _, kind := range kinds {
			if errors.Is(err, kind) {
				return
			}
		}
		if err != nil {
			t.Errorf("error %v is of no kind", err)
		}
	})
}
