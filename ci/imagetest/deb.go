package imagetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/ulikunitz/xz"
)

// File is a file, or a symbolic link if Link is set, of a base image, package or driver. Mode 0 is 0644.
type File struct {
	Name, Body, Link string
	Mode             int64
}

// Tar returns an archive of the files with the directories above them; prefix is put before each name.
func Tar(t testing.TB, prefix string, files []File) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	write := func(h tar.Header, body string) {
		h.Format, h.Size = tar.FormatGNU, int64(len(body))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("imagetest: %s: %v", h.Name, err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatalf("imagetest: %s: %v", h.Name, err)
		}
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
	if err := w.Close(); err != nil {
		t.Fatalf("imagetest: %v", err)
	}
	return b.Bytes()
}

// Package is a .deb: its control paragraph without a final newline, other control files, and its files.
type Package struct {
	Control   string
	Extra     map[string]string
	Files     []File
	Component string // "": main
}

// Deb returns the package's archive. A package with more control files than control has its data compressed
// with xz, like Debian's packages; the data of others are not, because the encoder is slow.
func (p Package) Deb(t testing.TB) []byte {
	t.Helper()
	control := []File{{Name: "control", Body: p.Control + "\n"}}
	for _, name := range slices.Sorted(maps.Keys(p.Extra)) {
		control = append(control, File{Name: name, Body: p.Extra[name]})
	}
	name, data := "data.tar", Tar(t, "./", p.Files)
	if len(p.Extra) > 0 {
		name, data = "data.tar.xz", XZ(t, data)
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{
		{"debian-binary", []byte("2.0\n")}, {"control.tar", Tar(t, "./", control)}, {name, data},
	} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, 0, 0, 0, "100644", len(m.data))
		b.Write(m.data)
		if len(m.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// XZ compresses.
func XZ(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&b)
	return finish(t, w, err, &b, data)
}

// Gzip compresses.
func Gzip(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z, ok := gzips.Get().(*gzip.Writer)
	if !ok {
		t.Fatal("imagetest: no compressor")
	}
	defer gzips.Put(z)
	z.Reset(&b)
	return finish(t, z, nil, &b, data)
}

// gzips are compressors for reuse: a world has hundreds of small files, and each compressor takes a
// megabyte.
var gzips = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func finish(t testing.TB, w io.WriteCloser, err error, b *bytes.Buffer, data []byte) []byte {
	t.Helper()
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatalf("imagetest: compress: %v", err)
	}
	return b.Bytes()
}
