package runfile

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

// Fuzzes the tar inside the compression, which the fuzzer of whole archives does not reach because of the
// checksums.
func FuzzUntar(f *testing.F) {
	for _, h := range []tar.Header{
		{Name: "./kernel/", Typeflag: tar.TypeDir}, {Name: "./a", Typeflag: tar.TypeReg, Size: 3},
		{Name: strings.Repeat("long/", 30) + "x", Typeflag: tar.TypeReg, Format: tar.FormatGNU}, {Name: "a", Linkname: "/etc", Typeflag: tar.TypeSymlink},
		{Name: "x", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"path": "../x"}, Format: tar.FormatPAX},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(f, w.WriteHeader(&h))
		w.Write(make([]byte, h.Size)) //nolint:errcheck // to memory
		w.Close()                     //nolint:errcheck // to memory
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		limits := Limits{Content: 1 << 20, Members: 50}.withDefaults()
		seen := make(map[string]bool)
		err := untar(&capReader{r: bytes.NewReader(data), left: limits.Content, limit: limits.Content}, limits,
			func(name string, mode fs.FileMode, size int64, content io.Reader) error {
				if seen[name] || name != path.Clean(name) || path.IsAbs(name) || strings.HasPrefix(name, "..") || name == "." || mode&^fs.ModePerm != 0 {
					t.Errorf("handed out %q, mode %s", name, mode)
				}
				seen[name] = true
				_, err := io.Copy(io.Discard, content)
				return err
			})
		if err != nil && !errors.Is(err, ErrPayload) && !errors.Is(err, ErrUnsafe) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("error %v is of no kind", err)
		}
	})
}

// A hostile block header must not make the reader allocate the memory that it announces.
func TestXZDictionaryIsBounded(t *testing.T) {
	t.Parallel()
	// A stream header without integrity check, and a block header with a dictionary of 4 GiB - 1.
	stream := []byte("\xfd7zXZ\x00\x00\x00\xff\x12\xd9\x41\x02\x00\x21\x01\x28\x00\x00\x00")
	stream = binary.LittleEndian.AppendUint32(stream, crc32.ChecksumIEEE(stream[12:]))
	r := Reader{limits: Limits{Window: 64 << 20}}
	d, err := r.decompress(bytes.NewReader(append(stream, make([]byte, 100)...)))
	if err == nil {
		_, err = io.Copy(io.Discard, d)
	}
	assert.ErrorIs(t, err, ErrTooLarge)
}
