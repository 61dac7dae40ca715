package dpkg

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"testing"
)

// part is a member of an ar archive.
type part struct {
	name string
	data []byte
}

func buildAr(parts ...part) []byte {
	b := bytes.NewBufferString(arMagic)
	for _, p := range parts {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", p.name, 0, 0, 0, "100644", len(p.data))
		b.Write(p.data)
		if len(p.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// entry is a member of a tar archive. The default type is a file.
type entry struct {
	name, link, body string
	kind             byte
}

func buildTar(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: 0o644, Size: int64(len(e.body))}
		must(t, w.WriteHeader(h))
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

const testControl = "Package: hello\nVersion: 1.0-1\nArchitecture: amd64\nDescription: greets\n and leaves\n"

// control returns a minimal control.tar.
func control(t testing.TB, more ...entry) []byte {
	t.Helper()
	return buildTar(t, append([]entry{{name: "./", kind: tar.TypeDir}, {name: "./control", body: testControl}}, more...)...)
}

// debOf returns a .deb with this data.tar, without compression.
func debOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	return buildAr(part{"debian-binary", []byte("2.0\n")}, part{"control.tar", control(t)}, part{"data.tar", buildTar(t, entries...)})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
