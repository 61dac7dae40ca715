package repotest

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"

	"sync"
)

// File is a file of a package, an archive or a system; a symbolic link if Link is set. Mode 0 is 0644.
type File struct {
	Name, Body, Link string
	Mode             int64

	// These are for rpm packages only. Files with the same Inode that is not 0 are hard links of each other; a
	// ghost is not in the archive. Owner "" is root.
	Owner, Caps string
	Inode       uint32
	Ghost       bool
}

// Failer is the part of a test that Must needs: tests of the packages testing and rapid have it.
type Failer interface {
	Helper()
	Fatal(args ...any)
}

// Must ends the test if there is an error.
func Must(t Failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Tar returns an archive of the files with the directories above them; prefix is put before each name.
func Tar(t testing.TB, prefix string, files []File) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	write := func(h tar.Header, body string) {
		h.Format, h.Size = tar.FormatGNU, int64(len(body))
		Must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, body)
		Must(t, err)
	}
	done := map[string]bool{".": true, "/": true}
	var parents func(dir string)
	parents = func(dir string) {
		if !done[dir] {
			done[dir] = true
			parents(path.Dir(dir))
			write(tar.Header{Typeflag: tar.TypeDir, Name: prefix + dir + "/", Mode: 0o755}, "")
		}
	}
	for _, f := range files {
		if path.Clean(f.Name) == f.Name { // hostile names are written unchanged
			parents(path.Dir(f.Name))
			done[f.Name] = true
		}
		h := tar.Header{Typeflag: tar.TypeReg, Name: prefix + f.Name, Mode: f.Mode, Linkname: f.Link}
		if f.Mode == 0 {
			h.Mode = 0o644
		}
		if f.Link != "" {
			h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
		}
		write(h, f.Body)
	}
	Must(t, w.Close())
	return b.Bytes()
}

// gzips are compressors for reuse: tests compress hundreds of small files, and each compressor takes a
// megabyte.
var gzips = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Compress compresses data as the ending of a file name says: ".gz", ".xz", ".zst", ".lzma", or "" for not at all.
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
		w, err = xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&b) // a small dictionary, because every test allocates it again
	case ".zst":
		w, err = zstd.NewWriter(&b)
	case ".lzma":
		w, err = lzma.NewWriter(&b)
	default:
		t.Fatalf("no compression has the ending %q", ending)
	}
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	Must(t, err)
	return b.Bytes()
}
