package tarfile

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

var someBlob = BlobName(strings.Repeat("ab", 32))

// archive writes members as a bundle has them.
func archive(members map[string]string) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range members {
			if !yield(n) {
				return
			}
		}
	}) {
		h := Header(name, int64(len(members[name])))
		b.Write(h[:])
		b.WriteString(members[name])
		b.Write(make([]byte, Padding(int64(len(members[name])))))
	}
	b.Write(make([]byte, TrailerSize))
	return b.Bytes()
}

// TestHeader compares headers with those of Go's package, on both sides of the size that octal digits hold.
func TestHeader(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1, 511, 512, 1<<33 - 1, 1 << 33, 1 << 40} {
		var b bytes.Buffer
		format := tar.FormatUSTAR
		if size >= 1<<33 {
			format = tar.FormatGNU
		}
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: someBlob, Size: size, Mode: 0o644, Format: format}))
		if got := Header(someBlob, size); !bytes.Equal(got[:], b.Bytes()[:BlockSize]) {
			t.Errorf("size %d:\n%q\nwant\n%q", size, got, b.Bytes()[:BlockSize])
		}
		name, back, err := parse(b.Bytes()[:BlockSize])
		assert.NoError(t, err)
		assert.Equal(t, someBlob, name)
		assert.Equal(t, size, back)
	}
}

func faults(t *testing.T, b []byte) (members []Member, all []string) {
	t.Helper()
	members = require.Value(Index(bytes.NewReader(b), int64(len(b)), func(member, message string) { all = append(all, member+": "+message) }))(t)
	return members, all
}

// drain reads a stream to its end.
func drain(b []byte) (n int, err error) {
	s := NewStream(bytes.NewReader(b))
	for ; ; n++ {
		if _, err := s.Next(); err != nil {
			return n, err
		}
		if _, err := io.Copy(io.Discard, s); err != nil {
			return n, err
		}
	}
}

func TestSound(t *testing.T) {
	t.Parallel()
	b := archive(map[string]string{LayoutName: "x", IndexName: strings.Repeat("y", 513), someBlob: ""})
	members, all := faults(t, b)
	assert.Equal(t, 0, len(all))
	assert.Equal(t, 3, len(members))
	n, err := drain(b)
	assert.Equal(t, 3, n)
	assert.Equal(t, io.EOF, err)
}

// TestEveryByte flips each byte that is no content, and cuts the archive at each byte: both readers notice.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	b := archive(map[string]string{LayoutName: "x", someBlob: "0123456789"})
	content := map[int]bool{}
	members, _ := faults(t, b)
	for _, m := range members {
		for i := range m.Size {
			content[int(m.Offset+i)] = true
		}
	}
	for i := range b {
		if _, all := faults(t, b[:i]); len(all) == 0 {
			t.Errorf("cut at %d: nothing is found", i)
		}
		if _, err := drain(b[:i]); errors.Is(err, io.EOF) {
			t.Errorf("cut at %d: the stream ends well", i)
		}
		if content[i] {
			continue
		}
		b[i] ^= 0x10
		if _, all := faults(t, b); len(all) == 0 {
			t.Errorf("byte %d: nothing is found", i)
		}
		if _, err := drain(b); errors.Is(err, io.EOF) {
			t.Errorf("byte %d: the stream ends well", i)
		}
		b[i] ^= 0x10
	}
	_, all := faults(t, append(b, 0))
	assert.Equal(t, 1, len(all))
	assert.ErrorContains(t, assert.Err(drain(append(b, 0))), "something follows")
}

// TestForeign has members that another program may write.
func TestForeign(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]tar.Header{
		"a link":        {Typeflag: tar.TypeSymlink, Name: someBlob, Linkname: "/etc/passwd"},
		"is a link":     {Typeflag: tar.TypeLink, Name: someBlob, Linkname: IndexName},
		"a folder":      {Typeflag: tar.TypeDir, Name: "blobs/"},
		"no bundle has": {Typeflag: tar.TypeReg, Name: "../../etc/passwd", Mode: 0o644},
		"bundle has":    {Typeflag: tar.TypeReg, Name: "blobs/sha256/../../index.json", Mode: 0o644},
		"gives them":    {Typeflag: tar.TypeReg, Name: someBlob, Mode: 0o644, PAXRecords: map[string]string{"comment": "x"}},
		"another":       {Typeflag: tar.TypeReg, Name: someBlob, Mode: 0o755},
		"of an unknown": {Typeflag: tar.TypeFifo, Name: someBlob},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(&h))
		require.NoError(t, w.Close())
		_, all := faults(t, b.Bytes())
		assert.Containsf(t, strings.Join(all, "\n"), want, "%v", h)
		assert.Errorf(t, assert.Err(drain(b.Bytes())), "%v", h)
	}
	twice := archive(map[string]string{someBlob: "x"})
	twice = append(twice[:len(twice)-TrailerSize], twice...)
	_, all := faults(t, twice)
	assert.Contains(t, strings.Join(all, "\n"), "twice")
}

func FuzzIndex(f *testing.F) {
	f.Add(archive(map[string]string{LayoutName: "x", IndexName: "y", someBlob: "z"}))
	f.Add(make([]byte, TrailerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		members, all := faults(t, b)
		for _, m := range members {
			if m.Offset < 0 || m.Size < 0 || m.Offset+m.Size > int64(len(b)) {
				t.Errorf("%+v is outside of %d bytes", m, len(b))
			}
		}
		if _, err := drain(b); errors.Is(err, io.EOF) != (len(all) == 0) {
			t.Errorf("stream: %v; index: %v", err, all)
		}
	})
}
