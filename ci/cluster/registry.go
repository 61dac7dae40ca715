package cluster

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// startRegistry starts an image registry on this machine's loopback and returns its port. The guest reaches it as
// guestRegistry, whatever the port is.
func startRegistry(t testing.TB) (port int) {
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
	return portOf(t, l)
}

func portOf(t testing.TB, l net.Listener) int {
	t.Helper()
	address := require.Value(netip.ParseAddrPort(l.Addr().String()))(t)
	return int(address.Port())
}
