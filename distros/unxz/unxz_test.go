package unxz

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ulikunitz/xz"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

const window = 8 << 20

// content is what the streams of the tests unpack to: enough for the program, and soon compressed.
var content = func() []byte {
	random, out := rand.New(rand.NewPCG(1, 2)), bytes.Buffer{}
	for out.Len() < smallest+100_000 {
		word := binary.BigEndian.AppendUint16(nil, uint16(random.UintN(300)))
		out.Write(bytes.Repeat(word, 20)) // the race detector makes each symbol of a stream slow
	}
	return out.Bytes()
}()

// pack makes a stream with a kind of checksum, of several blocks.
func pack(t testing.TB, check byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := require.Value(xz.WriterConfig{DictCap: 1 << 16, CheckSum: check, NoCheckSum: check == 0, BlockSize: 200_000}.NewWriter(&out))(t)
	require.Value(w.Write(content))(t)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// unpack reads a stream that lies in a file between other bytes. It returns what was read, and how much of
// first was left.
func unpack(ctx context.Context, d *Decoder, stream []byte) (got []byte, left int, err error) {
	file := append(append([]byte("before"), stream...), "behind"...)
	first := bytes.NewReader(stream)
	open := d.In(ctx, bytes.NewReader(file), int64(len(file)))
	if open == nil {
		open = func(first io.Reader, _, _ int64, dictionary uint32) (io.ReadCloser, error) {
			return InGo(first, dictionary)
		}
	}
	in, err := open(first, 6, int64(len(stream)), window)
	if err != nil {
		return nil, first.Len(), err
	}
	got, err = io.ReadAll(in)
	return got, first.Len(), errors.Join(err, in.Close())
}

// machine is this machine's program, if there is one.
func machine(t testing.TB) *Decoder {
	t.Helper()
	d := Find(func(err error) { t.Error(err) })
	if d == nil {
		t.Skip("there is no xz program")
	}
	return d
}

// damaged are streams that are not what they should be, and some that are unusual.
func damaged(t testing.TB) map[string][]byte {
	t.Helper()
	sound := pack(t, xz.CRC64)
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(sound)) }
	flip := func(at int) []byte {
		return edit(func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 0x10; return b })
	}
	all := map[string][]byte{
		"nothing": {}, "no stream": bytes.Repeat([]byte("no stream"), 50_000), "two streams": append(bytes.Clone(sound), sound...),
		"padding": append(bytes.Clone(sound), 0, 0, 0, 0), "odd padding": append(bytes.Clone(sound), 0, 0, 0),
		"trailing garbage": append(bytes.Clone(sound), "garbage!"...), "trailing magic": append(bytes.Clone(sound), sound[:20]...),
		"hidden index":   edit(func(b []byte) []byte { return append(b, b[len(b)-100:]...) }),
		"no first block": edit(func(b []byte) []byte { return append(b[:12], b[len(b)/3&^3:]...) }),
		"huge dictionary": edit(func(b []byte) []byte {
			size := (int(b[12]) + 1) * 4
			b[bytes.IndexByte(b[12:12+size], lzma2)+14] = 38
			binary.LittleEndian.PutUint32(b[12+size-4:], crc32.ChecksumIEEE(b[12:12+size-4]))
			return b
		}),
	}
	for _, at := range []int{3, 7, 9, 12, 13, 16, 30, 100, len(sound) / 2, -1, -5, -9, -13, -15, -18, -22, -40} {
		all[fmt.Sprintf("byte %d changed", at)] = flip(at)
	}
	for _, size := range []int{5, 12, 40, len(sound) / 2, len(sound) - 30, len(sound) - 12, len(sound) - 1} {
		all[fmt.Sprintf("cut to %d bytes", size)] = bytes.Clone(sound[:size])
	}
	return all
}

// TestSameByEitherWay: content and errors do not depend on the program.
func TestSameByEitherWay(t *testing.T) {
	t.Parallel()
	sound, _ := fake(t, "sound")
	programs := map[string]*Decoder{"fake": sound}
	if d := Find(nil); d != nil {
		programs["machine's"] = d
	}
	streams := damaged(t)
	for name, check := range map[string]byte{"no check": 0, "CRC32": xz.CRC32, "CRC64": xz.CRC64, "SHA-256": xz.SHA256} {
		streams[name] = pack(t, check)
	}
	for name, stream := range streams {
		want, _, wantErr := unpack(t.Context(), nil, stream)
		for program, d := range programs {
			d.failed.Store(false)
			d.report = func(err error) {
				// The first byte of the range coder, which must be zero. The decoder in Go does not look at it.
				if name != "byte 30 changed" {
					t.Errorf("%s: %v", name, err)
				}
			}
			got, left, err := unpack(t.Context(), d, stream)
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("%s by the %s program: error %v, in Go %v", name, program, err, wantErr)
			}
			if err == nil && (!bytes.Equal(got, want) || left != 0) {
				t.Errorf("%s by the %s program: %d bytes, %d unread; in Go %d bytes", name, program, len(got), left, len(want))
			}
		}
	}
}

// TestFaults: the decoder in Go takes over from a program that fails, once and for all.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mute", "deaf", "dies", "hangs", "closes", "garbage", "flips", "less", "much", "fails at the end", "zeros", "leaves a child"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, reports := fake(t, name)
			stream := pack(t, xz.CRC64)
			got, left, err := unpack(t.Context(), d, stream)
			if name == "zeros" || name == "garbage" { // much was passed on before a checksum could show that it is wrong
				assert.ErrorIs(t, err, ErrProgram)
			} else if require.NoError(t, err); !bytes.Equal(got, content) || left != 0 {
				t.Errorf("%d bytes, %d unread; want %d", len(got), left, len(content))
			}
			if len(*reports) != 1 {
				t.Fatalf("reports: %v, want one", *reports)
			}
			text := (*reports)[0].Error()
			assert.Contains(t, text, d.path)
			assert.Contains(t, text, "--no-helpers")
			assert.Equalf(t, true, len(text) < 2000, "length of the report")
			assert.Equalf(t, 0, processes(t, filepath.Dir(d.path)), "processes that are left")
			require.NoError(t, os.Remove(d.path)) // it is not started again
			got, _, err = unpack(t.Context(), d, stream)
			require.NoError(t, err)
			assert.Equalf(t, true, bytes.Equal(got, content), "content of the second stream")
			assert.Equalf(t, 1, len(*reports), "reports")
		})
	}
}

// processes counts the processes whose program lies in a folder.
func processes(t *testing.T, dir string) (n int) {
	t.Helper()
	for _, file := range require.Value(filepath.Glob("/proc/[0-9]*/cmdline"))(t) {
		if line, err := os.ReadFile(file); err == nil && bytes.HasPrefix(line, []byte(dir+"/")) { // a zombie has no arguments
			n++
		}
	}
	return n
}

// TestMissing: the program disappears after it was found.
func TestMissing(t *testing.T) {
	t.Parallel()
	d, reports := fake(t, "sound")
	require.NoError(t, os.Remove(d.path))
	got, _, err := unpack(t.Context(), d, pack(t, xz.CRC32))
	require.NoError(t, err)
	assert.Equalf(t, true, bytes.Equal(got, content), "content")
	assert.Equalf(t, 1, len(*reports), "reports")
}

// TestCancelled: a program that hangs ends with the context of its build, long before its time.
func TestCancelled(t *testing.T) {
	t.Parallel()
	d, reports := fake(t, "hangs")
	d.patience = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
	defer cancel()
	_, _, err := unpack(ctx, d, pack(t, xz.CRC64))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equalf(t, 0, len(*reports), "reports")
}

// TestClosedEarly: a reader that is closed before its end leaves neither program nor goroutine.
func TestClosedEarly(t *testing.T) {
	t.Parallel()
	d, _ := fake(t, "sound")
	stream := pack(t, xz.CRC64)
	in := require.Value(d.In(t.Context(), bytes.NewReader(stream), int64(len(stream)))(bytes.NewReader(stream), 0, -1, window))(t)
	require.Value(io.ReadFull(in, make([]byte, 10)))(t)
	require.NoError(t, in.Close())
	assert.Errorf(t, assert.Err(in.Read(make([]byte, 10))), "a read of a closed stream")
}

// TestEnvironment: the variables that change what xz does do not reach it.
func TestEnvironment(t *testing.T) {
	d := machine(t)
	t.Setenv("XZ_DEFAULTS", "--memlimit=1KiB")
	t.Setenv("XZ_OPT", "--format=lzma")
	got, _, err := unpack(t.Context(), d, pack(t, xz.CRC64))
	require.NoError(t, err)
	assert.Equalf(t, true, bytes.Equal(got, content), "content")
}

// TestFind: a machine without the program decompresses in Go.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	assert.Equalf(t, true, Find(nil) == nil, "a decoder without a program")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "xz"), nil, 0o755))
	assert.Equalf(t, true, Find(nil) != nil, "no decoder with a program")
	t.Chdir(dir)
	t.Setenv("PATH", ".")
	assert.Equalf(t, true, Find(nil) == nil, "a program of the working folder")
}

// FuzzSame compares the machine's program with the decoder in Go.
func FuzzSame(f *testing.F) {
	for _, check := range []byte{0, xz.CRC32, xz.CRC64, xz.SHA256} {
		f.Add(pack(f, check))
	}
	for _, stream := range damaged(f) {
		f.Add(stream)
	}
	d := machine(f)
	d.report = nil // the decoder in Go is more lenient in places, and then its result counts
	f.Fuzz(func(t *testing.T, stream []byte) {
		want, _, wantErr := unpack(t.Context(), nil, stream)
		got, left, err := unpack(t.Context(), d, stream)
		switch {
		case (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error():
			t.Errorf("error %v, in Go %v", err, wantErr)
		case err == nil && (!bytes.Equal(got, want) || left != 0):
			t.Errorf("%d bytes, %d unread; in Go %d bytes", len(got), left, len(want))
		}
	})
}
