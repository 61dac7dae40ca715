package rootfs

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func newSpool(t testing.TB) *Spool {
	t.Helper()
	s := require.Value(NewSpool(t.TempDir()))(t)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
	})
	return s
}

// build returns a tree made of lines: "path = content", "path -> target", "path/", and "path == first name"
// for a hard link.
func build(t testing.TB, s *Spool, lower *Tree, lines ...string) *Tree {
	t.Helper()
	tree := New(s, lower)
	for _, line := range lines {
		require.NoErrorf(t, add(tree, line), "%s", line)
	}
	return tree
}

func add(tree *Tree, line string) error {
	if name, other, ok := strings.Cut(line, " == "); ok {
		return tree.AddHardLink(name, other)
	}
	if name, content, ok := strings.Cut(line, " = "); ok {
		return tree.AddFile(name, 0o644, int64(len(content)), strings.NewReader(content))
	}
	if name, target, ok := strings.Cut(line, " -> "); ok {
		return tree.AddLink(name, target)
	}
	return tree.AddDir(line, 0o755)
}

// show returns a whole tree as lines: entries of the tree itself in the notation of build, whiteouts with a
// minus.
func show(t testing.TB, tree *Tree) []string {
	t.Helper()
	lines := []string{}
	for _, e := range tree.All() {
		lines = append(lines, showEntry(t, e))
	}
	return lines
}

func showEntry(t testing.TB, e *Entry) string {
	t.Helper()
	switch {
	case e.Kind == Dir:
		return e.Path + "/"
	case e.Kind == Special:
		return e.Path + " is " + e.Target
	case e.Kind == Link:
		return e.Path + " -> " + e.Target
	case e.Kind == Deleted:
		return "-" + e.Path
	case e.ContentOmitted:
		return e.Path + " (elided)"
	}
	r := require.Value(e.Open())(t)
	b := require.Value(io.ReadAll(r))(t)
	return e.Path + " = " + string(b)
}

func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		body := ""
		if h.Typeflag == tar.TypeReg {
			body, h.Linkname = h.Linkname, "" // for files, Linkname is the content
			h.Size = int64(len(body))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		require.NoError(t, w.WriteHeader(&h))
		require.Value(io.WriteString(w, body))(t)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: content}
}
func dir(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}
func symlink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}
func hardlink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}
func device(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeChar, Name: name, Devmajor: 1, Devminor: 3}
}

func written(t testing.TB, tree *Tree) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, tree.WriteTar(context.Background(), &b, time.Unix(1700000000, 0)))
	return b.Bytes()
}

func applied(t testing.TB, s *Spool, keep func(string) bool, layers ...[]byte) *Tree {
	t.Helper()
	tree := New(s, nil)
	for _, l := range layers {
		require.NoError(t, tree.Apply(context.Background(), bytes.NewReader(l), keep))
	}
	return tree
}
