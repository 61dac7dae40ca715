package runnertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Layer returns a layer made of lines: "path = content", "path * content" for a program, "path -> target" for
// a symbolic link, "path == first" for a hard link, "path/" for a folder.
func Layer(t testing.TB, lines ...string) v1.Layer {
	t.Helper()
	return TarLayer(t, Tar(t, lines...))
}

// TarLayer returns a layer made of an archive.
func TarLayer(t testing.TB, archive []byte) v1.Layer {
	t.Helper()
	l := require.Value(tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestSpeed)))(t)
	return l
}

// Tar returns an archive made of the lines that Layer takes.
func Tar(t testing.TB, lines ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, line := range lines {
		hdr, content := member(line)
		require.NoErrorf(t, w.WriteHeader(&hdr), "%.40s", line)
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatalf("%.40s: %v", line, err)
		}
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func member(line string) (tar.Header, string) {
	when := time.Unix(1_600_000_000, 0)
	head, _, _ := strings.Cut(line, "\n") // programs contain every character
	head = head[:min(len(head), 200)]
	for _, kind := range []struct {
		sign string
		typ  byte
		mode int64
	}{
		{" == ", tar.TypeLink, 0o644},
		{" -> ", tar.TypeSymlink, 0o777},
		{" = ", tar.TypeReg, 0o644},
		{" * ", tar.TypeReg, 0o755},
	} {
		i := strings.Index(head, kind.sign)
		if i < 0 || strings.ContainsAny(head[:i], " ") {
			continue
		}
		hdr := tar.Header{Typeflag: kind.typ, Name: head[:i], Mode: kind.mode, ModTime: when}
		rest := line[i+len(kind.sign):]
		if kind.typ != tar.TypeReg {
			hdr.Linkname = rest
			return hdr, ""
		}
		hdr.Size = int64(len(rest))
		return hdr, rest
	}
	return tar.Header{Typeflag: tar.TypeDir, Name: line, Mode: 0o755, ModTime: when}, ""
}

// damaged is a layer whose content is another layer's.
type damaged struct {
	v1.Layer
	other v1.Layer
}

func (d damaged) Compressed() (io.ReadCloser, error)   { return d.other.Compressed() }
func (d damaged) Uncompressed() (io.ReadCloser, error) { return d.other.Uncompressed() }
