package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// registry is an image registry on this machine's loopback, which the guest reaches as guestRegistry,
// whatever its port is. Below /files/ it serves the files that the node downloads (Cluster.Upload).
type registry struct {
	port int

	mu      sync.Mutex
	layouts []string          // folders of OCI layouts, whose blobs are served from there
	blobs   map[string][]byte // all other blobs
	files   map[string]string // name -> path on this machine
}

func startRegistry(t testing.TB) *registry {
	t.Helper()
	r := &registry{blobs: map[string][]byte{}, files: map[string]string{}}
	mux := http.NewServeMux()
	mux.Handle("/v2/", ggcr.New(ggcr.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)), ggcr.WithBlobHandler(r)))
	mux.HandleFunc("/files/", r.serveFile)
	l := require.Value(net.Listen("tcp4", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		assert.NoErrorf(t, server.Close(), "end of the registry")
		<-done
	})
	r.port = portOf(t, l)
	return r
}

func (r *registry) serveFile(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	path, found := r.files[strings.TrimPrefix(req.URL.Path, "/files/")]
	r.mu.Unlock()
	if !found {
		http.NotFound(w, req)
		return
	}
	http.ServeFile(w, req, path)
}

// open returns a blob and its size.
func (r *registry) open(h v1.Hash) (io.ReadCloser, int64, error) {
	r.mu.Lock()
	data, found := r.blobs[h.String()]
	layouts := r.layouts
	r.mu.Unlock()
	if found {
		return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	}
	for _, dir := range layouts {
		f, err := os.Open(filepath.Join(dir, "blobs", h.Algorithm, h.Hex))
		if err != nil {
			continue
		}
		st, err := f.Stat()
		if err != nil {
			return nil, 0, errors.Join(err, f.Close())
		}
		return f, st.Size(), nil
	}
	return nil, 0, ggcr.ErrNotFound
}

// Get, Stat and Put are for go-containerregistry.
func (r *registry) Get(_ context.Context, _ string, h v1.Hash) (io.ReadCloser, error) {
	blob, _, err := r.open(h)
	return blob, err
}

// Stat returns the size of a blob.
func (r *registry) Stat(_ context.Context, _ string, h v1.Hash) (int64, error) {
	blob, size, err := r.open(h)
	if err != nil {
		return 0, err
	}
	return size, blob.Close()
}

// Put keeps a blob in memory.
func (r *registry) Put(_ context.Context, _ string, h v1.Hash, blob io.ReadCloser) error {
	data, err := io.ReadAll(blob)
	if err = errors.Join(err, blob.Close()); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[h.String()] = data
	return nil
}

// push puts an image into the registry under "NAME:TAG". It does not copy blobs that a layout has.
func (r *registry) push(t testing.TB, ref string, image v1.Image) {
	t.Helper()
	to := require.Value(name.ParseReference("127.0.0.1:"+itoa(r.port)+"/"+ref, name.Insecure))(t)
	require.NoError(t, remote.Write(to, image, remote.WithContext(t.Context())))
}

// layout adds the blobs of an OCI layout.
func (r *registry) layout(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.layouts = append(r.layouts, dir)
}
