package oci

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
)

// open opens an image for linux/amd64.
func open(t *testing.T, ref string) (v1.Image, error) {
	t.Helper()
	l, _ := ParseLocal(ref)
	img, _, err := l.Image(t.Context(), "amd64")
	return img, err
}

// artifactOf opens what a reference names.
func artifactOf(t *testing.T, ref string) (Artifact, error) {
	t.Helper()
	l, _ := ParseLocal(ref)
	return l.Artifact(t.Context())
}

// The content of a layout is read in place and verified.
func TestLayoutDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	img := imagetest.RandomImage(t, "amd64", 1000, "one")
	require.NoError(t, WriteLayout(t.Context(), dir, "x", img))
	m, err := img.Manifest()
	require.NoError(t, err)
	flip := func(h v1.Hash) {
		path := filepath.Join(dir, "blobs", "sha256", h.Hex)
		b := require.Value(os.ReadFile(path))(t)
		b[len(b)-1] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o600))
	}
	flip(m.Layers[0].Digest)
	b := require.Value(open(t, "oci:"+dir))(t)
	layers := require.Value(b.Layers())(t)
	r := require.Value(layers[0].Compressed())(t)
	defer r.Close()
	err = fetch.Copy(t.Context(), &bytes.Buffer{}, r, nil)
	require.ErrorAs[*fetch.MismatchError](t, err)
	flip(m.Config.Digest)
	_, err = open(t, "oci:"+dir)
	require.ErrorAs[*fetch.MismatchError](t, err)
}

type tarEntry struct {
	name, link string
	content    []byte
}

func writeTestTar(t *testing.T, list ...tarEntry) string {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range list {
		h := &tar.Header{Name: e.name, Size: int64(len(e.content)), Mode: 0o644, Typeflag: tar.TypeReg}
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		require.NoError(t, w.WriteHeader(h))
		require.Value(w.Write(e.content))(t)
	}
	require.NoError(t, w.Close())
	file := filepath.Join(t.TempDir(), "x.tar")
	require.NoError(t, os.WriteFile(file, buf.Bytes(), 0o600))
	return file
}

// The format of old `docker save`: uncompressed layers, a repeated layer as a link.
func TestDockerArchiveOld(t *testing.T) {
	t.Parallel()
	one := imagetest.RandomTar(t, "one", 5000)
	config := fmt.Appendf(nil, `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[%q,%q]}}`, HashOf(one), HashOf(one))
	manifest, err := json.Marshal(tarball.Manifest{{Config: "c.json", RepoTags: []string{"x:1"}, Layers: []string{"a/layer.tar", "b/layer.tar"}}})
	require.NoError(t, err)
	sound := []tarEntry{
		{name: "b/layer.tar", link: "../a/layer.tar"},
		{name: "a/layer.tar", content: one},
		{name: "./c.json", content: config},
		{name: "manifest.json", content: manifest},
	}
	b := require.Value(open(t, "docker-archive:"+writeTestTar(t, sound...)))(t)
	m := require.Value(b.Manifest())(t)
	if l := m.Layers[1]; l.Digest != HashOf(one) || l.MediaType != types.OCIUncompressedLayer || l.Size != int64(len(one)) {
		t.Errorf("layer %+v; want the uncompressed tar as it is", l)
	}
	layers := require.Value(b.Layers())(t)
	if !bytes.Equal(imagetest.Unpacked(t, layers[0]), one) {
		t.Error("the layer's content changed")
	}

	replaced := func(i int, e tarEntry) []tarEntry {
		out := append([]tarEntry{}, sound...)
		out[i] = e
		return out
	}
	wrong := tarEntry{name: "a/layer.tar", content: imagetest.RandomTar(t, "two", 5000)}
	layers = require.Value(require.Value(open(t, "docker-archive:"+writeTestTar(t, replaced(1, wrong)...)))(t).Layers())(t)
	require.ErrorAs[*fetch.MismatchError](t, assert.Err(io.ReadAll(require.Value(layers[0].Uncompressed())(t))))
	packed, err := open(t, "docker-archive:"+writeTestTar(t, replaced(1, tarEntry{name: "a/layer.tar", content: repotest.Compress(t, ".gz", one)})...))
	require.NoError(t, err)
	imagetest.SameLayers(t, packed, b)
	z := require.Value(zstd.NewWriter(nil))(t)
	if packed, err = open(t, "docker-archive:"+writeTestTar(t, replaced(1, tarEntry{name: "a/layer.tar", content: z.EncodeAll(one, nil)})...)); err != nil {
		t.Fatal(err)
	}
	imagetest.SameLayers(t, packed, b)
	for name, list := range map[string][]tarEntry{
		"link to itself": replaced(0, tarEntry{name: "b/layer.tar", link: "layer.tar"}),
		"no layer":       sound[2:],
		"no manifest":    sound[:3],
	} {
		err := assert.Err(open(t, "docker-archive:"+writeTestTar(t, list...)))
		assert.Errorf(t, err, "%s was accepted", name)
		assert.Equalf(t, name == "no layer", failure.KindOf(err) == failure.Content, "%s: %v", name, err)
	}
	_, err = openArchive(writeTestTar(t))
	assert.NoErrorf(t, err, "an empty tar")
	gz := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(gz, repotest.Compress(t, ".gz", one), 0o600))
	if _, err := openArchive(gz); err == nil || !strings.Contains(err.Error(), "gunzip") {
		t.Errorf("a compressed archive: %v; want a hint", err)
	}
	if _, err := openArchive(os.DevNull); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file: %v", err)
	}
}

// TestArchiveChanges: an archive that changes or vanishes while it is in use is an error of its content.
func TestArchiveChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.tar")
	require.NoError(t, WriteOCIArchive(t.Context(), file, "x", "1", imagetest.RandomImage(t, "amd64", 1000, "one")))
	layers := require.Value(require.Value(open(t, "oci-archive:"+file))(t).Layers())(t)
	require.NoError(t, WriteOCIArchive(t.Context(), file, "x", "1", imagetest.RandomImage(t, "amd64", 1000, "two")))
	changed := assert.Err(layers[0].Compressed())
	assert.ErrorContains(t, changed, "changed while it was in use")
	assert.Equal(t, failure.Content, failure.KindOf(changed))
	require.NoError(t, os.Remove(file))
	gone := assert.Err(layers[0].Compressed())
	assert.ErrorContains(t, gone, "must stay until the command ends")
	assert.Equal(t, failure.Content, failure.KindOf(gone))
}

// TestDescriptorsLie: neither the entry of a layout, nor that of an index in it, nor the image's own documents may
// say what the content is not. A container runtime notices it on a node.
func TestDescriptorsLie(t *testing.T) {
	t.Parallel()
	one := imagetest.RandomImage(t, "amd64", 1000, "layer")
	lying := require.Value(one.ConfigFile())(t).DeepCopy()
	lying.RootFS.DiffIDs[0].Hex = strings.Repeat("a", 64)
	for what, c := range map[string]struct {
		of      Artifact
		old, to string
		want    error
	}{
		"whole":              {of: one},
		"index":              {of: imagetest.Index(t, one)},
		"size":               {one, `"size":`, `"size":1`, ErrDescriptor},
		"size in an index":   {imagetest.Index(t, one), `"size":`, `"size":1`, ErrDescriptor},
		"platform":           {one, `"architecture":"amd64"`, `"architecture":"arm64"`, ErrDescriptor},
		"system":             {one, `"os":"linux"`, `"os":"windows"`, ErrDescriptor},
		"content of a layer": {of: require.Value(mutate.ConfigFile(one, lying))(t), want: ErrDiffID},
		"a missing manifest": {one, imagetest.Digest(t, one).Hex, strings.Repeat("0", 64), fs.ErrNotExist},
	} {
		dir := filepath.Join(t.TempDir(), "x")
		require.NoError(t, WriteLayout(t.Context(), dir, "x", c.of))
		index := require.Value(os.ReadFile(filepath.Join(dir, "index.json")))(t)
		assert.Equalf(t, true, bytes.Contains(index, []byte(c.old)), "%s", what)
		if c.old != "" {
			index = bytes.ReplaceAll(index, []byte(c.old), []byte(c.to))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "index.json"), index, 0o600))
		a, err := artifactOf(t, "oci:"+dir)
		if err == nil {
			err = WriteLayout(t.Context(), filepath.Join(t.TempDir(), "y"), "x", a)
		}
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", what, err)
		}
		assert.Equalf(t, err != nil, failure.KindOf(err) == failure.Content, "%s: %v", what, err)
	}
}

// TestUnreadable: a path that cannot be looked at is not said to be absent.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		l, _ := ParseLocal(kind + ":" + strings.Repeat("x", 300))
		assert.ErrorIs(t, l.Check(), unix.ENAMETOOLONG)
	}
}

// TestNamelessArchive: an archive without a tag, as skopeo writes it, is written again without one.
func TestNamelessArchive(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.tar")
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	require.NoError(t, WriteOCIArchive(t.Context(), file, "driver", "", img))
	tags, digests, err := LocalTags("oci-archive:" + file)
	assert.NoError(t, err)
	assert.Same(t, []string{""}, tags)
	assert.Same(t, []v1.Hash{imagetest.Digest(t, img)}, digests)
}

// TestIndexBound: no index is written that the next call would refuse.
func TestIndexBound(t *testing.T) {
	t.Parallel()
	g := newGraph()
	for range 20_000 {
		g.index.Manifests = append(g.index.Manifests, v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("1", 200)}})
	}
	assert.ErrorContains(t, assert.Err(g.rawIndex()), "20000 entries")
}

// TestArchiveName: the entry of an OCI archive has the tag, and the name by which nodes ask for the image.
func TestArchiveName(t *testing.T) {
	t.Parallel()
	for repository, want := range map[string]string{
		"": "docker.io/library/driver:1", "team/driver": "docker.io/team/driver:1", "registry.example.com:5000/gpu/driver": "registry.example.com:5000/gpu/driver:1",
	} {
		o := Output{Kind: "oci-archive", Path: filepath.Join(t.TempDir(), "x.tar")}
		require.Value(o.Write(t.Context(), repository, "1", imagetest.RandomImage(t, "amd64", 10, "one")))(t)
		l, _ := ParseLocal(o.String())
		index, _, err := l.index()
		require.NoError(t, err)
		assert.Equal(t, "1", index.Manifests[0].Annotations[RefNameAnnotation])
		assert.Equal(t, want, index.Manifests[0].Annotations[ContainerdNameAnnotation])
		assert.Equal(t, strings.TrimSuffix(want, ":1"), require.Value(LocalRepository(l))(t))
		for _, ref := range []string{o.String() + ":1", o.String() + ":" + want} {
			require.Value(artifactOf(t, ref))(t)
		}
	}
}

func FuzzArchive(f *testing.F) {
	f.Add([]byte("not a tar"))
	f.Add(imagetest.RandomTar(f, "x", 10))
	f.Add(bytes.Repeat([]byte{0}, 1024))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := readMembers(bytes.NewReader(b))
		if err != nil {
			return
		}
		for n, m := range all {
			if m.offset < 0 || m.size < 0 {
				t.Errorf("%s at %d, %d bytes", n, m.offset, m.size)
			}
			_, _ = all.find(n)
		}
	})
}
