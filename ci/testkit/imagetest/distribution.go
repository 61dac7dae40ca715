package imagetest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Distribution is Debian's docker-registry (CNCF's Distribution) behind a proxy, without TLS. It
// has no referrers API.
type Distribution struct {
	Host string
	Dir  string // of its content
	faulty
}

// NewDistribution starts the registry, until the test ends. It skips the test outside of the real
// tier.
func NewDistribution(t testing.TB) *Distribution {
	t.Helper()
	tool.Real(t, "it needs a real registry")
	tool.Program(t, "docker-registry", "docker-registry")
	d := &Distribution{Dir: t.TempDir()}
	config := testfile.Write(
		t,
		filepath.Join(d.Dir, "config.yml"),
		fmt.Sprintf("version: 0.1\nlog: {level: info}\n"+
			"storage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}\nhttp: {addr: \"127.0.0.1:0\", relativeurls: true}\n", d.Dir),
	)
	cmd := exec.Command("docker-registry", "serve", config)
	log, logged := io.Pipe()
	cmd.Stderr = logged
	cmd.Stdout = logged
	require.NoErrorf(t, cmd.Start(), "start Debian's docker-registry")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = logged.Close()
	})
	found := make(chan string, 1)
	go listening(log, found)
	select {
	case host := <-found:
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !d.answers(w, r) {
				proxy.ServeHTTP(w, r)
			}
		}))
		t.Cleanup(server.Close)
		d.Host = strings.TrimPrefix(server.URL, "http://")
	case <-time.After(30 * time.Second):
		t.Fatal("docker-registry did not begin to listen")
	}
	return d
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

// Blob is the file with the content of a blob ("sha256:...").
func (d *Distribution) Blob(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(d.Dir, "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")
}
