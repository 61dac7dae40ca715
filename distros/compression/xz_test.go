package compression

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ulikunitz/xz"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// pack makes content, and a stream of it with a kind of checksum, of several blocks, that is large enough for the
// program.
func pack(t testing.TB, check byte) (content, stream []byte) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for range 4 * smallest { // incompressible bytes make each symbol of a stream cheap for the race detector
		content = append(content, byte(random.Uint32()))
	}
	var out bytes.Buffer
	w := require.Value(xz.WriterConfig{DictCap: 1 << 16, CheckSum: check, NoCheckSum: check == 0, BlockSize: 100_000}.NewWriter(&out))(t)
	require.Value(w.Write(content))(t)
	require.NoError(t, w.Close())
	return content, out.Bytes()
}

func unpack(ctx context.Context, p XZProgram, stream []byte) (got []byte, left int, err error) {
	source := bytes.NewReader(stream)
	in, err := p.Open(ctx)(source)
	if err != nil {
		return nil, 0, err
	}
	got, err = io.ReadAll(in)
	return got, source.Len(), errors.Join(err, in.Close())
}

// TestSameByEitherWay: content does not depend on the program, and what is refused in Go is refused by it.
func TestSameByEitherWay(t *testing.T) {
	t.Parallel()
	program := FindXZ()
	if program == "" {
		t.Skip("there is no xz program")
	}
	content, sound := pack(t, xz.CRC64)
	streams := map[string][]byte{
		"small": sound[:1000], "cut": sound[:len(sound)-30], "trailing garbage": append(bytes.Clone(sound), "garbage!"...), "two": append(bytes.Clone(sound), sound...),
	}
	for name, check := range map[string]byte{"no check": 0, "CRC32": xz.CRC32, "CRC64": xz.CRC64, "SHA-256": xz.SHA256} {
		_, streams[name] = pack(t, check)
	}
	for _, at := range []int{3, 7, 13, 100, len(sound) / 2, len(sound) - 1, len(sound) - 9} {
		changed := bytes.Clone(sound)
		changed[at] ^= 0x10
		streams["changed at "+string(rune('a'+at%26))] = changed
	}
	for name, stream := range streams {
		want, _, wantErr := unpack(t.Context(), "", stream)
		got, left, err := unpack(t.Context(), program, stream)
		assert.Equalf(t, wantErr == nil, err == nil, "%s: error %v, in Go %v", name, err, wantErr)
		assert.Equalf(t, true, err != nil || bytes.Equal(want, got) && left == 0, "%s: %d bytes, %d left", name, len(got), left)
	}
	got, _, err := unpack(t.Context(), program, sound)
	require.NoError(t, err)
	assert.Equalf(t, true, bytes.Equal(content, got), "the content")
	large := bytes.Clone(sound)
	large[12+bytes.IndexByte(large[12:24], 0x21)+2] = 38 // a dictionary of 2 GiB
	binary.LittleEndian.PutUint32(large[12+(int(large[12])+1)*4-4:], crc32.ChecksumIEEE(large[12:12+(int(large[12])+1)*4-4]))
	_, _, err = unpack(t.Context(), program, large)
	assert.ErrorContainsf(t, err, "limit", "a huge dictionary")
}

// TestBadPrograms: a program that fails is to blame, and its end is awaited.
func TestBadPrograms(t *testing.T) {
	t.Parallel()
	_, stream := pack(t, 0)
	for name, script := range map[string]string{"dies": "echo no more >&2; exit 1", "is no program": "exec /nonexistent", "is killed": "kill -9 $$"} {
		program := filepath.Join(t.TempDir(), "xz")
		testfile.Write(t, program, "#!/bin/sh\n"+script+"\n")
		_, _, err := unpack(t.Context(), XZProgram(program), stream)
		assert.ErrorContainsf(t, err, "remove it from PATH", "%s", name)
	}
	_, _, err := unpack(t.Context(), "/nonexistent", stream)
	assert.ErrorIs(t, err, os.ErrNotExist)
	program := filepath.Join(t.TempDir(), "xz")
	testfile.Write(t, program, "#!/bin/sh\nexec sleep 600\n")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, _, err = unpack(ctx, XZProgram(program), stream)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	in := require.Value(XZProgram(program).Open(t.Context())(bytes.NewReader(stream)))(t)
	require.NoError(t, in.Close())
	assert.Equalf(t, true, assert.Err(in.Read(make([]byte, 1))) != nil, "a read after Close")
}

// TestLimit: content beyond the limit is a fault of the format, and the source may fail at that moment.
func TestLimit(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	format := errors.New("format")
	_, stream := pack(t, 0)
	for kind, data := range map[string][]byte{XZ: stream, Zstd: repotest.Compress(t, ".zst", bytes.Repeat(stream, 9))} {
		source := io.MultiReader(bytes.NewReader(data[:len(data)-100]), iotest.ErrReader(broken))
		in := require.Value(Stream{XZ: FindXZ().Open(t.Context()), Limit: 1, Format: format}.Open(source, kind))(t)
		assert.ErrorIsf(t, assert.Err(io.ReadAll(in)), format, "%s", kind)
		require.NoError(t, in.Close())
	}
}

// TestReader: the first bytes tell the compression, damage is damage, and an error of the source stays what it is.
func TestReader(t *testing.T) {
	t.Parallel()
	content := []byte(strings.Repeat("content\n", 1000))
	broken := errors.New("broken")
	for ending, kind := range map[string]string{"": "", ".gz": Gzip, ".xz": XZ, ".zst": Zstd} {
		stream := repotest.Compress(t, ending, content)
		read := func(r io.Reader) ([]byte, error) {
			in := bufio.NewReader(r)
			assert.Equal(t, kind, require.Value(Detect(in))(t))
			z, err := NewReader(in, kind)
			if err != nil {
				return nil, err
			}
			defer z.Close()
			return io.ReadAll(z)
		}
		assert.Equal(t, string(content), string(require.Value(read(bytes.NewReader(stream)))(t)))
		half := bytes.NewReader(stream[:len(stream)/2])
		if kind != "" {
			assert.ErrorIsf(t, assert.Err(read(half)), ErrDamaged, "%s", kind)
		}
		half.Reset(stream[:len(stream)/2])
		assert.ErrorIsf(t, assert.Err(read(io.MultiReader(half, iotest.ErrReader(broken)))), broken, "%s", kind)
	}
	assert.ErrorContains(t, assert.Err(NewReader(nil, "lzma")), "not supported")
}
