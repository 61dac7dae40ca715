package repotest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"io"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// File is a file of a package, an archive or a system; a symbolic link if Link is set, a folder if
// Name ends in a slash. Mode 0 is the usual one.
type File struct {
	Name, Body, Link string
	Mode             int64

	Type byte  // in tar archives, instead of the one that follows from the name and the link
	Time int64 // of the last change, in tar archives
	UID  int   // in tar archives

	// These are for rpm packages only. Files with the same Inode that is not 0 are hard links of
	// each other; a ghost is not in the archive. Owner "" is root.
	Owner, Caps string
	Inode       uint32
	Ghost       bool
}

func (f File) header() *tar.Header {
	h := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     f.Name,
		Linkname: f.Link,
		Mode:     0o644,
		Size:     int64(len(f.Body)),
		ModTime:  time.Unix(f.Time, 0),
		Uid:      f.UID,
		Format:   tar.FormatGNU,
	}
	switch {
	case f.Type != 0:
		h.Typeflag = f.Type
	case f.Link != "":
		h.Typeflag = tar.TypeSymlink
		h.Mode = 0o777
	case strings.HasSuffix(f.Name, "/"):
		h.Typeflag = tar.TypeDir
		h.Mode = 0o755
	}
	h.Mode = cmp.Or(f.Mode, h.Mode)
	return h
}

// RawTar returns an archive of the files, with the names as they are.
func RawTar(t testing.TB, files ...File) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		require.NoError(t, w.WriteHeader(f.header()))
		_, err := io.WriteString(w, f.Body)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// Tar returns an archive of the files with the directories above them; prefix is put before each
// name.
func Tar(t testing.TB, prefix string, files []File) []byte {
	t.Helper()
	var all []File
	done := map[string]bool{".": true, "/": true}
	var parents func(dir string)
	parents = func(dir string) {
		if !done[dir] {
			done[dir] = true
			parents(path.Dir(dir))
			all = append(all, File{Name: prefix + dir + "/"})
		}
	}
	for _, f := range files {
		if path.Clean(f.Name) == f.Name { // hostile names are written unchanged
			parents(path.Dir(f.Name))
			done[f.Name] = true
		}
		f.Name = prefix + f.Name
		all = append(all, f)
	}
	return RawTar(t, all...)
}

// gzips are compressors for reuse: tests compress hundreds of small files, and each compressor
// takes a megabyte.
var gzips = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Compress compresses data as the ending of a file name says: ".gz", ".xz", ".zst", or "" for
// not at all.
func Compress(t testing.TB, ending string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch ending {
	case "":
		return data
	case ".gz":
		z, _ := gzips.Get().(*gzip.Writer)
		defer gzips.Put(z)
		z.Reset(&b)
		w = z
	case ".xz":
		// a small dictionary, because every test allocates it again
		w, err = xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&b)
	case ".zst":
		w, err = zstd.NewWriter(&b)
	default:
		t.Fatalf("no compression has the ending %q", ending)
	}
	require.NoError(t, err)
	require.Value(w.Write(data))(t)
	require.NoError(t, w.Close())
	return b.Bytes()
}
