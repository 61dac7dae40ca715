package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/programtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

const (
	oldDriver = imagetest.OldDriver
	newDriver = imagetest.NewDriver
	libDir    = "usr/lib/x86_64-linux-gnu"
)

// golden compares text with a file. What differs from run to run is replaced before: the server's address and
// digests, which are numbered in the order in which they appear.
func golden(t *testing.T, w *imagetest.World, name, got string) {
	t.Helper()
	goldentest.Compare(t, filepath.Join("testdata", name), normal(w, got))
}

func normal(w *imagetest.World, s string) string {
	s = strings.ReplaceAll(s, w.Host, "SERVER")
	seen := map[string]string{}
	return regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllStringFunc(s, func(sum string) string {
		if seen[sum] == "" {
			seen[sum] = fmt.Sprintf("DIGEST-%d", len(seen)+1)
		}
		return seen[sum]
	})
}

// rig is a world and a builder in it.
type rig struct {
	*imagetest.World
	b *Builder
}

func newRig(t *testing.T) *rig {
	t.Helper()
	w := imagetest.New(t)
	return &rig{w, newBuilder(t, w, t.TempDir())}
}

func examiner(b *Builder) verify.Examiner { return verify.Examiner{Store: b.Store} }

func newBuilder(t *testing.T, w *imagetest.World, cache string) *Builder {
	t.Helper()
	store := require.Value(fetch.OpenStore(cache))(t)
	client := require.Value(registry.New(registry.Options{Store: store, Attempts: 2, Backoff: time.Millisecond}))(t)
	t.Cleanup(client.Close)
	return &Builder{
		Store: store, Fetch: &fetch.Client{Store: store, Attempts: 2, Backoff: time.Millisecond}, Registry: client,
		Info: recipe.BuilderInfo{Version: "v0.0.1", Revision: "abc"}, Binaries: programtest.Make(t, ""),
	}
}

func (r *rig) target(t *testing.T, s matrix.Selection) matrix.Target {
	t.Helper()
	m := require.Value(matrix.Parse("matrix.yaml", []byte(r.Matrix())))(t)
	targets, err := m.Select(s)
	if err != nil || len(targets) != 1 {
		t.Fatalf("%d targets, %v", len(targets), err)
	}
	return targets[0]
}

func pair(system, driver string) matrix.Selection {
	return matrix.Selection{Systems: []string{system}, Drivers: []string{driver}}
}

func (r *rig) plan(t *testing.T, s matrix.Selection, o recipe.Options) *recipe.Recipe {
	t.Helper()
	return require.Value(planOne(t, r.b, r.target(t, s), o))(t)
}

// planOne plans the image of one target.
func planOne(t *testing.T, b *Builder, target matrix.Target, o recipe.Options) (*recipe.Recipe, error) {
	t.Helper()
	all, err := b.Plan(t.Context(), Request{Targets: []matrix.Target{target}, Options: o})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (r *rig) build(t *testing.T, s matrix.Selection, o recipe.Options) v1.Image {
	t.Helper()
	return require.Value(r.b.Build(t.Context(), r.plan(t, s, o)))(t)
}

// made plans and builds a target.
func made(t *testing.T, b *Builder, target matrix.Target, o recipe.Options) (*recipe.Recipe, v1.Image) {
	t.Helper()
	planned := require.Value(planOne(t, b, target, o))(t)
	return planned, require.Value(b.Build(t.Context(), planned))(t)
}

// refused is why the image of a target cannot be built.
func refused(t *testing.T, b *Builder, target matrix.Target) error {
	t.Helper()
	return assert.Err(b.Build(t.Context(), require.Value(planOne(t, b, target, recipe.Options{}))(t)))
}

// wantFit fails unless verify finds an image fit.
func wantFit(t *testing.T, b *Builder, img v1.Image) {
	t.Helper()
	findings, err := examiner(b).Verify(t.Context(), "x", img, verify.Options{})
	assert.Equalf(t, true, err == nil && verify.Unfit(findings) == nil, "%v, %v", findings, err)
}

// wantPaths compares which paths an image has.
func wantPaths(t *testing.T, tree *rootfs.Tree, there bool, names ...string) {
	t.Helper()
	for _, name := range names {
		assert.Equalf(t, there, tree.Exists(name), "the image has %s", name)
	}
}

func digestOf(t *testing.T, img interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	d := require.Value(img.Digest())(t)
	return d.String()
}

func layersOf(t *testing.T, img v1.Image) []v1.Layer {
	t.Helper()
	return require.Value(img.Layers())(t)
}

// members calls f for each member of a layer.
func members(t *testing.T, l v1.Layer, f func(*tar.Header)) {
	t.Helper()
	r := require.Value(l.Uncompressed())(t)
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		f(h)
	}
	require.NoError(t, r.Close())
}

// listing is a layer as text, one member a line.
func listing(t *testing.T, l v1.Layer) string {
	t.Helper()
	var b strings.Builder
	members(t, l, func(h *tar.Header) {
		switch h.Typeflag {
		case tar.TypeSymlink:
			fmt.Fprintf(&b, "link %04o %s -> %s\n", h.Mode, h.Name, h.Linkname)
		case tar.TypeLink:
			fmt.Fprintf(&b, "hard %04o %s == %s\n", h.Mode, h.Name, h.Linkname)
		case tar.TypeDir:
			fmt.Fprintf(&b, "dir  %04o %s\n", h.Mode, h.Name)
		default:
			fmt.Fprintf(&b, "file %04o %s\n", h.Mode, h.Name)
		}
	})
	return b.String()
}

// tree is the whole image as the kernel would show it.
func treeOf(t *testing.T, img v1.Image) *rootfs.Tree {
	t.Helper()
	spool := require.Value(rootfs.NewSpool(t.TempDir()))(t)
	t.Cleanup(func() { _ = spool.Close() })
	return require.Value(layer.Flatten(context.Background(), img, spool, nil, progress.Quiet()))(t)
}

func read(t *testing.T, tree *rootfs.Tree, name string) string {
	t.Helper()
	b, err := tree.ReadFile(name)
	assert.NoError(t, err)
	return string(b)
}
