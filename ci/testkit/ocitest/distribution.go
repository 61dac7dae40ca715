package ocitest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Distribution is Debian's docker-registry (CNCF's Distribution) behind a proxy that counts requests, without
// TLS. It has no referrers API. It can be stopped and started again under the same address.
type Distribution struct {
	Host string
	Dir  string // of its content

	t        testing.TB
	mu       sync.Mutex
	backend  *url.URL
	stop     func()
	requests map[string]int
	fault    func(http.ResponseWriter, *http.Request) bool
}

// NewDistribution starts the registry, until the test ends.
func NewDistribution(t testing.TB) *Distribution {
	t.Helper()
	d := &Distribution{Dir: t.TempDir(), t: t, requests: map[string]int{}}
	config := fmt.Sprintf("version: 0.1\nlog: {level: info}\nstorage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}\nhttp: {addr: \"127.0.0.1:0\", relativeurls: true}\n", d.Dir)
	require.NoError(t, os.WriteFile(filepath.Join(d.Dir, "config.yml"), []byte(config), 0o600))
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		d.mu.Lock()
		defer d.mu.Unlock()
		r.SetURL(d.backend)
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.requests[r.Method+" "+r.URL.RequestURI()]++
		fault := d.fault
		d.mu.Unlock()
		if fault == nil || !fault(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	d.Host = strings.TrimPrefix(server.URL, "http://")
	d.Start()
	t.Cleanup(func() { server.Close(); d.Stop() })
	return d
}

// Start starts the server after Stop.
func (d *Distribution) Start() {
	cmd := exec.Command("docker-registry", "serve", filepath.Join(d.Dir, "config.yml"))
	read, logged := io.Pipe()
	cmd.Stderr, cmd.Stdout = logged, logged
	if err := cmd.Start(); err != nil {
		d.t.Errorf("start Debian's docker-registry: %v", err)
		return
	}
	found := make(chan string, 1)
	go listening(read, found)
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = logged.Close()
	})
	select {
	case host := <-found:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.backend, d.stop = &url.URL{Scheme: "http", Host: host}, stop
	case <-time.After(30 * time.Second):
		stop()
		d.t.Errorf("docker-registry did not begin to listen")
	}
}

// Stop kills the server.
func (d *Distribution) Stop() {
	d.mu.Lock()
	stop := d.stop
	d.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// listening reads the log of the server to its end, and sends the address that the server chose.
func listening(log io.Reader, found chan<- string) {
	address := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			found <- m[1]
			break
		}
	}
	_, _ = io.Copy(io.Discard, log)
}

// Fault sets a handler that may answer requests first: it returns true if it has answered.
func (d *Distribution) Fault(f func(http.ResponseWriter, *http.Request) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// Requests returns the number of requests so far whose method and address ("POST
// /v2/a/blobs/uploads/?mount=") match a regular expression.
func (d *Distribution) Requests(pattern string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for request, count := range d.requests {
		if regexp.MustCompile(pattern).MatchString(request) {
			n += count
		}
	}
	return n
}

// Blob is the file with the content of a blob ("sha256:...").
func (d *Distribution) Blob(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(d.Dir, "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")
}
