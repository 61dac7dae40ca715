package registry

import (
	"bufio"
	"net"
	"net/http"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// pageListener is one of a server that answers what is no HTTP, such as the first bytes of TLS, with a page and without a head, as HTTP/0.9
// has it. Python's http.server is such a server.
type pageListener struct{ net.Listener }

func (l pageListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		in := bufio.NewReader(c)
		first, err := in.Peek(1)
		if err == nil && first[0] >= 'A' {
			return peeked{c, in}, nil
		}
		_, _ = c.Write([]byte("<!DOCTYPE HTML>\n<html>400</html>\n"))
		_ = c.Close()
	}
}

type peeked struct {
	net.Conn
	in *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

// TestPlainServer: a registry on loopback without TLS works, whatever it answers to TLS.
func TestPlainServer(t *testing.T) {
	t.Parallel()
	l := require.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := http.Server{Handler: ggcr.New()}
	go func() { _ = server.Serve(pageListener{l}) }()
	t.Cleanup(func() { _ = server.Close() })
	for _, insecure := range []bool{false, true} {
		c := client(t, func(o *Options) { o.Insecure = insecure })
		img := imagetest.RandomImage(t, "amd64", 10, "x")
		_, _, err := c.Push(t.Context(), l.Addr().String()+"/a:1", img)
		require.NoError(t, err)
		opened := require.Value(base(t, c, l.Addr().String()+"/a:1", "amd64"))(t)
		assert.Equal(t, imagetest.Digest(t, img), opened.Digest)
	}
}
