package cluster

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
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
// whatever its port is.
type registry struct{ port int }

func startRegistry(t testing.TB) *registry {
	t.Helper()
	quiet := ggcr.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelError))
	handler := ggcr.New(quiet, ggcr.WithBlobHandler(ggcr.NewDiskBlobHandler(t.TempDir())))
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	l := require.Value(net.Listen("tcp4", "127.0.0.1:0"))(t)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		assert.NoErrorf(t, server.Close(), "end of the registry")
		<-done
	})
	return &registry{portOf(t, l)}
}

// push puts an image into the registry under "NAME:TAG".
func (r *registry) push(t testing.TB, ref string, image v1.Image) {
	t.Helper()
	to := require.Value(name.ParseReference(fmt.Sprintf("127.0.0.1:%d/%s", r.port, ref), name.Insecure))(t)
	require.NoError(t, remote.Write(to, image, remote.WithContext(t.Context())))
}
