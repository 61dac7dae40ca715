package eviction

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/node/evict"
	"github.com/driver-container/driver-container/node/status"
)

// step names the purpose of a request; "" for requests that change nothing, and for Events.
func step(r *http.Request, body string) string {
	switch {
	case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodes/") && strings.Contains(body, `"`+evict.Annotation+`":null`):
		return "put back"
	case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodes/") && strings.Contains(body, status.SafeLoadAnnotation):
		return "release"
	case r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodes/"):
		return "take"
	case strings.HasSuffix(r.URL.Path, "/eviction") && r.URL.Query().Get("dryRun") == "":
		return "evict"
	}
	return ""
}

// wire is a proxy between driver-evict and the API server. It calls cut with each step, before the server
// receives the request and after the server has answered; once cut returns true, nothing passes any more.
type wire struct {
	*httptest.Server
	ca string

	mu   sync.Mutex
	cut  func(step string, answered bool) bool
	dead bool
	path func(string) string // changes the paths of requests; nil: none
}

func newWire(t *testing.T, server, ca string, cut func(step string, answered bool) bool) *wire {
	t.Helper()
	target := require.Value(url.Parse(server))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	w := &wire{cut: cut}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		if w.path != nil {
			r.Out.URL.Path = w.path(r.Out.URL.Path)
		}
	}}
	w.Server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s := step(r, string(body))
		w.pass(s, false)
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		w.pass(s, true)
		maps.Copy(rw.Header(), answer.Header())
		rw.WriteHeader(answer.Code)
		_, _ = rw.Write(answer.Body.Bytes())
	}))
	w.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw}))
	t.Cleanup(func() { w.Close(); transport.CloseIdleConnections() })
	return w
}

// pass ends the request without an answer when the wire is cut.
func (w *wire) pass(step string, answered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = w.dead || step != "" && w.cut(step, answered)
	if w.dead {
		panic(http.ErrAbortHandler)
	}
}
