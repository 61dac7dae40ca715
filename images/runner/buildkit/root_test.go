package buildkit

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/solver/pb"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/runnertest"
	"github.com/driver-container/driver-container/images/runner"
)

// filed is a layer whose bytes are a file.
type filed struct {
	v1.Layer
	path string
}

func (l *filed) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

func compressed(t *testing.T, l v1.Layer) []byte {
	t.Helper()
	rc := require.Value(l.Compressed())(t)
	defer rc.Close()
	return require.Value(io.ReadAll(rc))(t)
}

func mustRoot(t *testing.T, arch string, layers ...v1.Layer) *root {
	t.Helper()
	return require.Value(newRoot(arch, layers))(t)
}

// TestRoot: equal layers give an equal root, and the manifest is valid.
func TestRoot(t *testing.T) {
	t.Parallel()
	a, b := runnertest.Layer(t, "a = 1"), runnertest.Layer(t, "b = 1")
	one := mustRoot(t, "amd64", a, b)
	if again := mustRoot(t, "amd64", runnertest.Layer(t, "a = 1"), b); again.manifest != one.manifest {
		t.Errorf("%s and %s for the same layers", one.manifest, again.manifest)
	}
	for what, other := range map[string]*root{"order": mustRoot(t, "amd64", b, a), "architecture": mustRoot(t, "arm64", a, b), "fewer": mustRoot(t, "amd64", a)} {
		if other.manifest == one.manifest {
			t.Errorf("another %s has the same digest", what)
		}
	}
	var m ocispecs.Manifest
	require.NoError(t, json.Unmarshal(compressed(t, one.blobs[one.manifest]), &m))
	var c ocispecs.Image
	require.NoError(t, json.Unmarshal(compressed(t, one.blobs[m.Config.Digest]), &c))
	sum, _ := b.Digest()
	diff, _ := b.DiffID()
	if len(m.Layers) != 2 || string(m.Layers[1].Digest) != sum.String() || string(c.RootFS.DiffIDs[1]) != diff.String() || c.OS != "linux" || c.Architecture != "amd64" {
		t.Errorf("manifest %+v, config %+v", m, c)
	}
}

// TestStore: a daemon can read the blobs of the root, at any offset, and nothing else.
func TestStore(t *testing.T) {
	t.Parallel()
	l := runnertest.Layer(t, "a = 1") // its bytes come as a stream
	f := &filed{Layer: runnertest.Layer(t, "b = 1"), path: filepath.Join(t.TempDir(), "blob")}
	require.NoError(t, os.WriteFile(f.path, compressed(t, f.Layer), 0o600))
	var told []string
	s := &store{root: mustRoot(t, "amd64", l, f), work: t.TempDir(), notify: func(line string) { told = append(told, line) }}
	want := map[digest.Digest][]byte{}
	for sum, l := range s.root.blobs {
		want[sum] = compressed(t, l)
	}
	var all sync.WaitGroup
	for d, b := range want {
		for range 4 {
			all.Go(func() {
				info, err := s.Info(t.Context(), d)
				if err != nil || info.Size != int64(len(b)) {
					t.Errorf("%s: %+v, %v", d, info, err)
				}
				r, err := s.ReaderAt(t.Context(), ocispecs.Descriptor{Digest: d})
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Close()
				got, err := io.ReadAll(io.NewSectionReader(r, 7, r.Size()-7))
				if err != nil || !bytes.Equal(got, b[7:]) {
					t.Errorf("%s from offset 7: %d bytes, %v", d, len(got), err)
				}
			})
		}
	}
	all.Wait()
	assert.Equalf(t, 2, len(told), "told %q", told)
	if left, _ := os.ReadDir(s.work); len(left) > 0 {
		t.Errorf("files with names: %v", left)
	}
	other := digest.FromString("something else of this machine")
	if _, err := s.Info(t.Context(), other); !errdefs.IsNotFound(err) {
		t.Errorf("Info of another blob: %v", err)
	}
	if _, err := s.ReaderAt(t.Context(), ocispecs.Descriptor{Digest: other}); !errdefs.IsNotFound(err) {
		t.Errorf("ReaderAt of another blob: %v", err)
	}
	if _, err := s.Writer(t.Context()); !errdefs.IsPermissionDenied(err) {
		t.Errorf("Writer: %v", err)
	}
}

// TestBrokenLayer: a layer that cannot be read is an error of this process, not of the daemon.
func TestBrokenLayer(t *testing.T) {
	t.Parallel()
	f := &filed{Layer: runnertest.Layer(t, "a = 1"), path: filepath.Join(t.TempDir(), "gone")}
	s := &store{root: mustRoot(t, "amd64", f), work: t.TempDir(), notify: func(string) {}}
	sum, _ := f.Digest()
	assert.ErrorContains(t, assert.Err(s.ReaderAt(t.Context(), ocispecs.Descriptor{Digest: digest.Digest(sum.String())})), sum.String(), "no such file")
	assert.ErrorIs(t, s.failure(), fs.ErrNotExist)
}

// TestDefinition: the request for a step.
func TestDefinition(t *testing.T) {
	t.Parallel()
	r := mustRoot(t, "arm64", runnertest.Layer(t, "a = 1"))
	s := runner.Step{Name: "some step", Arch: "arm64", Args: []string{"/bin/x", "", "a b"}, Env: []string{"PATH=/p", "HOME=/", "ODD= a=b ü"}, Output: "/out/put"}
	def := require.Value(definition(t.Context(), s, r))(t)
	var sources []string
	var exec digest.Digest
	for _, b := range def.Def {
		var op pb.Op
		require.NoError(t, op.UnmarshalVT(b))
		if src := op.GetSource(); src != nil {
			sources = append(sources, src.Identifier)
			if src.Attrs[pb.AttrOCILayoutStoreID] != storeID || src.Attrs[pb.AttrOCILayoutSessionID] != "" {
				t.Errorf("source attributes %v", src.Attrs)
			}
		}
		e := op.GetExec()
		if e == nil {
			continue
		}
		exec = digest.FromBytes(b)
		if !slices.Equal(e.Meta.Args, s.Args) || !slices.Equal(e.Meta.Env, s.Env) || e.Meta.Cwd != "/" || e.Meta.User != "" || e.Meta.ProxyEnv != nil {
			t.Errorf("command %v", e.Meta)
		}
		if e.Network != pb.NetMode_NONE || e.Security != pb.SecurityMode_SANDBOX || len(e.Mounts) != 2 || op.Platform.Architecture != "arm64" {
			t.Errorf("network %v, security %v, mounts %v, platform %v", e.Network, e.Security, e.Mounts, op.Platform)
		}
		if m := e.Mounts[1]; m.Dest != "/out/put" || m.Input != -1 || m.Readonly {
			t.Errorf("output %v", m)
		}
	}
	assert.Same(t, []string{"oci-layout://driver/root@" + r.manifest.String()}, sources)
	s.Name = "another name"
	if other := require.Value(definition(t.Context(), s, r))(t); exec == "" || !slices.ContainsFunc(other.Def, func(b []byte) bool { return digest.FromBytes(b) == exec }) {
		t.Errorf("the command depends on the name of the step")
	}
}
