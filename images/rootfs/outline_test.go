package rootfs

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestOutline: outlines of layers give the tree that the layers give, with digests instead of contents.
func TestOutline(t *testing.T) {
	t.Parallel()
	s := newSpool(t)
	layers := [][]byte{
		tarOf(t, dir("a/"), file("a/f", "1"), file("a/g", "22"), hardlink("h", "a/f"), symlink("l", "a/f"), device("dev")),
		tarOf(t, file("a/.wh.f", ""), file("n", ""), tar.Header{Typeflag: tar.TypeReg, Name: "own", Linkname: "x", Uid: 3, Gid: 4, Mode: 0o4755,
			PAXRecords: map[string]string{paxXattr + "security.capability": "x", paxXattr + "trusted.a": "y"}, Format: tar.FormatPAX}),
	}
	full, outlined := New(s, nil), New(s, nil)
	for _, l := range layers {
		require.NoError(t, full.Apply(t.Context(), bytes.NewReader(l), nil))
		var outline bytes.Buffer
		require.NoError(t, Outline(t.Context(), bytes.NewReader(l), &outline))
		require.NoError(t, outlined.AddOutline(t.Context(), require.Value(ReadOutline(t.Context(), &outline))(t)))
	}
	type facts struct {
		Path, Sum, Target string
		Size              int64
		Mode              string
		UID, GID          int
		Xattrs            map[string]string
	}
	of := func(tree *Tree) (all []facts) {
		for _, e := range tree.All() {
			f := facts{Path: e.Path, Target: e.Target, Xattrs: e.Xattrs, Size: e.Size, Mode: e.Mode.String(), UID: e.UID, GID: e.GID}
			if e.Kind == File {
				sum := require.Value(e.SHA256())(t)
				f.Sum = sum
			}
			all = append(all, f)
		}
		return all
	}
	assert.Same(t, of(full), of(outlined))
	sum := sha256.Sum256([]byte("22"))
	if e, _ := outlined.Lstat("a/g"); !e.ContentOmitted || e.sum != hex.EncodeToString(sum[:]) {
		t.Errorf("%+v", e)
	}
}

// TestForgedOutline: a layer that claims a digest for its contents is read as any other layer.
func TestForgedOutline(t *testing.T) {
	t.Parallel()
	var outline bytes.Buffer
	require.NoError(t, Outline(t.Context(), bytes.NewReader(tarOf(t, file("a", "good"))), &outline))
	tree := New(newSpool(t), nil)
	require.NoError(t, tree.Apply(t.Context(), &outline, nil))
	e, _ := tree.Lstat("a")
	if sum, err := e.SHA256(); err == nil || sum != "" {
		t.Errorf("the digest that a layer claims is believed: %s", sum)
	}
}
