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

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci/ocitest"
)

// entries returns the names in a layout's index, and checks the whole layout with go-containerregistry.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	x, err := layout.ImageIndexFromPath(dir)
	must(t, err)
	if err := validate.Index(x); err != nil {
		t.Error(err)
	}
	m, err := x.IndexManifest()
	must(t, err)
	var out []string
	for _, d := range m.Manifests {
		out = append(out, d.Annotations[refNameAnnotation]+" "+d.Digest.String())
	}
	return out
}

// leftovers returns files that are neither blobs nor part of a layout.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), ".") {
			out = append(out, path)
		}
		return err
	})
	must(t, err)
	return out
}

func TestWriteLayout(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "layout")
	one, two := ocitest.Image(t, "amd64", 1000, "shared", "one"), ocitest.Index(t, ocitest.Image(t, "amd64", 1000, "shared"), ocitest.Image(t, "arm64", 10, "x"))
	write := func(tag string, a Artifact) {
		must(t, WriteLayout(t.Context(), dir, tag, a))
	}
	write("b", one)
	write("a", two)
	want := []string{"a " + ocitest.Digest(t, two).String(), "b " + ocitest.Digest(t, one).String()}
	if diff := cmp.Diff(want, entries(t, dir)); diff != "" {
		t.Error(diff)
	}
	write("a", one) // takes the name from the image two
	want = []string{"a " + ocitest.Digest(t, one).String(), "b " + ocitest.Digest(t, one).String()}
	if diff := cmp.Diff(want, entries(t, dir)); diff != "" {
		t.Error(diff)
	}

	// A damaged blob is replaced, an intact one is kept.
	m, err := one.Manifest()
	must(t, err)
	bad := filepath.Join(dir, "blobs", "sha256", m.Layers[0].Digest.Hex)
	good := filepath.Join(dir, "blobs", "sha256", m.Layers[1].Digest.Hex)
	must(t, os.WriteFile(bad, make([]byte, m.Layers[0].Size), 0o600))
	before, err := os.Stat(good)
	must(t, err)
	stale := filepath.Join(dir, "blobs", "sha256", ".x.tmp-1")
	must(t, os.WriteFile(stale, nil, 0o600))
	must(t, os.Chtimes(stale, time.Time{}, time.Now().Add(-time.Hour)))
	write("a", one)
	after, err := os.Stat(good)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the sound blob was written again (%v)", err)
	}
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
		img := ocitest.Image(t, "amd64", 20000, "shared", tag)
		wg.Go(func() {
			if err := WriteLayout(t.Context(), dir, tag, img); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := entries(t, dir); len(got) != 4 {
		t.Errorf("entries %v; want four", got)
	}
}

func TestWriteLayoutRefusesWhatIsNotOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "index.json"), []byte(`{"schemaVersion":1}`), 0o600))
	if err := WriteLayout(t.Context(), dir, "a", ocitest.Image(t, "amd64", 10, "a")); err == nil {
		t.Error("an index of another version was overwritten")
	}
}

func TestCancelLeavesNothing(t *testing.T) {
	t.Parallel()
	img := ocitest.Image(t, "amd64", 1<<20, "one")
	for name, write := range map[string]func(context.Context, string, Artifact) error{
		"layout": func(ctx context.Context, dir string, a Artifact) error { return WriteLayout(ctx, dir, "x", a) },
		"oci": func(ctx context.Context, dir string, a Artifact) error {
			return WriteOCIArchive(ctx, filepath.Join(dir, "x.tar"), "x", a)
		},
		"docker": func(ctx context.Context, dir string, a Artifact) error {
			return WriteDockerArchive(ctx, filepath.Join(dir, "x.tar"), "x:1", a)
		},
	} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		if err := write(ctx, dir, cancelling{img, cancel}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v; want context.Canceled", name, err)
		}
		if err := write(t.Context(), dir, ocitest.Damaged{Image: img}); err == nil {
			t.Errorf("%s: a damaged layer was written", name)
		} else {
			ocitest.ErrorAs[*fetch.MismatchError](t, err)
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
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		must(t, err)
		if h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 || h.Uname != "" {
			t.Errorf("%s has mode %o, owner %d:%d %q, time %v", h.Name, h.Mode, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		names = append(names, h.Name)
	}
}

func TestArchivesAreDeterministic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	img := ocitest.Image(t, "amd64", 1000, "one", "two")
	for name, write := range map[string]func(string) error{
		"oci":    func(f string) error { return WriteOCIArchive(t.Context(), f, "1", img) },
		"docker": func(f string) error { return WriteDockerArchive(t.Context(), f, "docker.io/library/x:1", img) },
	} {
		var content [2][]byte
		for i := range content {
			file := filepath.Join(dir, name)
			must(t, write(file))
			b, err := os.ReadFile(file)
			must(t, err)
			content[i] = b
		}
		if !bytes.Equal(content[0], content[1]) {
			t.Errorf("%s: two archives of one image differ", name)
		}
		if names := tarNames(t, filepath.Join(dir, name)); !slices.IsSorted(names) {
			t.Errorf("%s: members %v are not sorted", name, names)
		}
	}
	got, err := tarball.ImageFromPath(filepath.Join(dir, "docker"), nil)
	must(t, err)
	ocitest.SameLayers(t, got, img)
	if left := leftovers(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWriteDockerArchiveRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.tar")
	img := ocitest.Image(t, "amd64", 10, "one")
	zstd, err := mutate.AppendLayers(img, ocitest.ZstdLayer())
	must(t, err)
	for want, a := range map[string]Artifact{"zstd": zstd, "this index has 2": ocitest.Index(t, img, ocitest.Image(t, "arm64", 10, "one"))} {
		err := WriteDockerArchive(t.Context(), file, "x:1", a)
		if !errors.Is(err, ErrNotForDocker) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want ErrNotForDocker with %q", err, want)
		}
	}
	if err := WriteDockerArchive(t.Context(), file, "x:1", ocitest.Index(t, img)); err != nil {
		t.Errorf("an index of one image: %v", err)
	}
	if err := WriteDockerArchive(t.Context(), file, "no tag!", img); err == nil {
		t.Error("a bad name was accepted")
	}
}
