package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
)

// entries returns the names in a layout's index, and checks the whole layout with go-containerregistry.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	x := require.Value(layout.ImageIndexFromPath(dir))(t)
	assert.NoError(t, validate.Index(x))
	m := require.Value(x.IndexManifest())(t)
	var out []string
	for _, d := range m.Manifests {
		out = append(out, d.Annotations[RefNameAnnotation]+" "+d.Digest.String())
	}
	return out
}

// leftovers returns files that are neither blobs nor part of a layout.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), ".") {
			out = append(out, path)
		}
		return err
	}))
	return out
}

func TestWriteLayout(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "layout")
	one, two := imagetest.RandomImage(t, "amd64", 1000, "shared", "one"), imagetest.Index(t, imagetest.RandomImage(t, "amd64", 1000, "shared"), imagetest.RandomImage(t, "arm64", 10, "x"))
	write := func(tag string, a Artifact) {
		require.NoError(t, WriteLayout(t.Context(), dir, tag, a))
	}
	write("b", one)
	write("a", two)
	want := []string{"a " + imagetest.Digest(t, two).String(), "b " + imagetest.Digest(t, one).String()}
	assert.Same(t, want, entries(t, dir))
	write("a", one) // takes the name from the image two
	want = []string{"a " + imagetest.Digest(t, one).String(), "b " + imagetest.Digest(t, one).String()}
	assert.Same(t, want, entries(t, dir))
	_, err := artifactOf(t, "oci:"+dir)
	assert.NoErrorf(t, err, "one image with two tags needs no tag")

	// A damaged blob is replaced, an intact one is kept.
	m := require.Value(one.Manifest())(t)
	bad := filepath.Join(dir, "blobs", "sha256", m.Layers[0].Digest.Hex)
	good := filepath.Join(dir, "blobs", "sha256", m.Layers[1].Digest.Hex)
	require.NoError(t, os.WriteFile(bad, make([]byte, m.Layers[0].Size), 0o600))
	before := require.Value(os.Stat(good))(t)
	stale := filepath.Join(dir, "blobs", "sha256", ".x.tmp-1")
	require.NoError(t, os.WriteFile(stale, nil, 0o600))
	require.NoError(t, os.Chtimes(stale, time.Time{}, time.Now().Add(-time.Hour)))
	write("a", one)
	after, err := os.Stat(good)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the sound blob was written again (%v)", err)
	}
	var index, last unix.Stat_t
	require.NoError(t, errors.Join(unix.Stat(filepath.Join(dir, "index.json"), &index), unix.Stat(bad, &last)))
	assert.Equalf(t, true, last.Ctim.Nano() < index.Ctim.Nano(), "the next build reads the blob again")
	entries(t, dir)
	if left := leftovers(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWriteLayoutAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var wg sync.WaitGroup
	for _, tag := range []string{"a", "b", "c", "d"} {
		img := imagetest.RandomImage(t, "amd64", 20000, "shared", tag)
		wg.Go(func() {
			assert.NoError(t, WriteLayout(t.Context(), dir, tag, img))
		})
	}
	wg.Wait()
	if got := entries(t, dir); len(got) != 4 {
		t.Errorf("entries %v; want four", got)
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	t.Parallel()
	img := imagetest.RandomImage(t, "amd64", 1<<20, "one")
	for name, write := range map[string]func(context.Context, string, Artifact) error{
		"layout": func(ctx context.Context, dir string, a Artifact) error { return WriteLayout(ctx, dir, "x", a) },
		"oci": func(ctx context.Context, dir string, a Artifact) error {
			return WriteOCIArchive(ctx, filepath.Join(dir, "x.tar"), "driver", "x", a)
		},
		"docker": func(ctx context.Context, dir string, a Artifact) error {
			return WriteDockerArchive(ctx, filepath.Join(dir, "x.tar"), "x:1", a)
		},
	} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		assert.ErrorIsf(t, write(ctx, dir, cancelling{img, cancel}), context.Canceled, "%s", name)
		if err := write(t.Context(), dir, imagetest.Damaged{Image: img}); err == nil {
			t.Errorf("%s: a damaged layer was written", name)
		} else {
			require.ErrorAs[*fetch.MismatchError](t, err)
		}
		if left := leftovers(t, dir); len(left) != 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
		for _, f := range []string{"index.json", "x.tar"} {
			if _, err := os.Stat(filepath.Join(dir, f)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s is there (%v)", name, f, err)
			}
		}
	}
}

// cancelling is an image that cancels the context when a layer is read.
type cancelling struct {
	v1.Image
	cancel context.CancelFunc
}

func (c cancelling) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	c.cancel()
	return c.Image.LayerByDigest(h)
}

func tarNames(t *testing.T, file string) (names []string) {
	t.Helper()
	f := require.Value(os.Open(file))(t)
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		if h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 || h.Uname != "" {
			t.Errorf("%s has mode %o, owner %d:%d %q, time %v", h.Name, h.Mode, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		names = append(names, h.Name)
	}
}

func TestArchivesAreDeterministic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	img := imagetest.RandomImage(t, "amd64", 1000, "one", "two")
	for name, write := range map[string]func(string) error{
		"oci":    func(f string) error { return WriteOCIArchive(t.Context(), f, "driver", "1", img) },
		"docker": func(f string) error { return WriteDockerArchive(t.Context(), f, "docker.io/library/x:1", img) },
	} {
		var content [2][]byte
		for i := range content {
			file := filepath.Join(dir, name)
			require.NoError(t, write(file))
			b := require.Value(os.ReadFile(file))(t)
			content[i] = b
		}
		if !bytes.Equal(content[0], content[1]) {
			t.Errorf("%s: two archives of one image differ", name)
		}
		if names := tarNames(t, filepath.Join(dir, name)); !slices.IsSorted(names) {
			t.Errorf("%s: members %v are not sorted", name, names)
		}
	}
	got := require.Value(tarball.ImageFromPath(filepath.Join(dir, "docker"), nil))(t)
	imagetest.SameLayers(t, got, img)
	if left := leftovers(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWriteDockerArchiveRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.tar")
	img := imagetest.RandomImage(t, "amd64", 10, "one")
	zstd := require.Value(mutate.AppendLayers(img, static.NewLayer(repotest.Compress(t, ".zst", []byte("a layer")), types.OCILayerZStd)))(t)
	for want, a := range map[string]Artifact{"zstd": zstd, "this index has 2": imagetest.Index(t, img, imagetest.RandomImage(t, "arm64", 10, "one"))} {
		err := WriteDockerArchive(t.Context(), file, "x:1", a)
		if !errors.Is(err, ErrNotForDocker) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want ErrNotForDocker with %q", err, want)
		}
	}
	assert.NoErrorf(t, WriteDockerArchive(t.Context(), file, "x:1", imagetest.Index(t, img)), "an index of one image")
	assert.Errorf(t, WriteDockerArchive(t.Context(), file, "no tag!", img), "a bad name was accepted")
}

// TestOutputs: names, and what is known of a place before the work.
func TestOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, WriteLayout(t.Context(), in("layout"), "x", imagetest.RandomImage(t, "amd64", 10, "x")))
	require.NoError(t, os.MkdirAll(in("with:colon"), 0o755))
	require.NoError(t, os.WriteFile(in("file"), nil, 0o600))
	require.NoError(t, os.MkdirAll(in("old"), 0o755))
	require.NoError(t, os.WriteFile(in("old/index.json"), []byte(`{"schemaVersion":1}`), 0o600))
	require.NoError(t, os.MkdirAll(in("linked/blobs"), 0o755))
	require.NoError(t, os.Symlink(in("layout/index.json"), in("linked/index.json")))
	require.NoError(t, os.MkdirAll(in("blocked/blobs"), 0o755))
	require.NoError(t, os.WriteFile(in("blocked/blobs/sha256"), nil, 0o600))
	for text, want := range map[string]string{
		"oci:" + in("layout"): "", "oci:" + in("new/layout"): "", "oci-archive:" + in("x.tar"): "", "docker-archive:" + in("file"): "", "oci:" + in("with:colon"): "",
		"oci:" + dir + "//with:colon/new": "", "oci:" + dir + "/./with:colon/new": "",
		"oci-archive:" + in("with:colon/x.tar"): "", "docker-archive:/dev/null": "",
		"": "is no output", "dist": "is no output", "oci:": "is no output", "tar:x": "is no output", "oci:a\x00b": "NUL",
		"oci:" + in("x:tag"): "give oci:" + in("x"), "docker-archive:" + in("x.tar:team/driver:1"): "give docker-archive:" + in("x.tar"), "oci:x:tag": "give oci:x",
		"oci-archive:" + in("with:colon/x.tar:1"): "give oci-archive:" + in("with:colon/x.tar"),
		"oci:" + in("file"):                       "no folder", "oci:" + in("file/x"): "no folder", "oci:" + in("linked"): "a link", "oci:" + in("blocked"): "no folder", "oci:" + in("old"): "schema version 1, want 2",
		"oci-archive:" + in("none/x.tar"): "create it first", "oci-archive:" + in("layout"): "a folder", "oci:/proc/x": "/proc",
	} {
		o, err := ParseOutput(text)
		if err == nil {
			err = o.Check()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	assert.ErrorContainsf(t, assert.Err(ParseOutputs([]string{"oci:a", "oci-archive:./a"})), "same path", "two outputs of one path")
	if _, err := os.Lstat(in("new")); err == nil || len(leftovers(t, dir)) > 0 {
		t.Errorf("a check left something behind: %v", leftovers(t, dir))
	}
}

// FuzzOutput: what is accepted is one path, which is not that of another output, and reading the same text
// means the same path once it is there.
func FuzzOutput(f *testing.F) {
	for _, s := range []string{"oci:dist", "oci:x:tag", "docker-archive:/tmp/x.tar:a/b:1", "oci-archive:./x/../y.tar", "oci:", "oci::", "oci:a:/b", "tar:x", "oci:\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseOutput(text)
		if err != nil {
			if strings.Contains(err.Error(), "\x00") {
				t.Errorf("%q: the message has a NUL", text)
			}
			return
		}
		if o.String() != text || o.Path == "" || strings.ContainsRune(o.Path, 0) {
			t.Errorf("%q: %+v", text, o)
		}
		if _, err := os.Lstat(o.Path); err != nil && strings.Contains(filepath.Base(o.Path), ":") {
			t.Errorf("%q: a tag is taken for a name", text)
		}
		l, ok := ParseLocal(text)
		if !ok || l.Path != o.Path {
			t.Errorf("%q: written to %q, read from %q", text, o.Path, l.Path)
		}
		_ = o.Check()
	})
}
