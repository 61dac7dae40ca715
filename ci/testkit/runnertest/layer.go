package runnertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"regexp"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Layer returns a layer made of lines: "path = content", "path * content" for a program, "path ->
// target" for a symbolic link, "path == first" for a hard link, "path/" for a folder.
func Layer(t testing.TB, lines ...string) v1.Layer {
	t.Helper()
	return TarLayer(t, Tar(t, lines...))
}

// TarLayer returns a layer made of an archive.
func TarLayer(t testing.TB, archive []byte) v1.Layer {
	t.Helper()
	return require.Value(
		tarball.LayerFromOpener(
			func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
			tarball.WithMediaType(types.OCILayer),
			tarball.WithCompressionLevel(gzip.BestSpeed),
		),
	)(t)
}

// entry is a line; contents have every sign and newlines.
var entry = regexp.MustCompile(`(?s)^([^ \n]+) (==|->|=|\*) (.*)$`)

// Tar returns an archive made of the lines that Layer takes.
func Tar(t testing.TB, lines ...string) []byte {
	t.Helper()
	var files []repotest.File
	for _, line := range lines {
		f := repotest.File{Name: line, Time: 1_600_000_000}
		m := entry.FindStringSubmatch(line)
		if m != nil {
			f.Name = m[1]
			f.Body = m[3]
			switch m[2] {
			case "==":
				f.Body = ""
				f.Link = m[3]
				f.Type = tar.TypeLink
			case "->":
				f.Body = ""
				f.Link = m[3]
			case "*":
				f.Mode = 0o755
			}
		}
		files = append(files, f)
	}
	return repotest.RawTar(t, files...)
}

// damaged is a layer whose content is another layer's.
type damaged struct {
	v1.Layer
	other v1.Layer
}

func (d damaged) Compressed() (io.ReadCloser, error)   { return d.other.Compressed() }
func (d damaged) Uncompressed() (io.ReadCloser, error) { return d.other.Uncompressed() }
