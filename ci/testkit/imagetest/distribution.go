package imagetest

import (
	"fmt"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Distribution is Debian's docker-registry (CNCF's Distribution) behind a proxy, without TLS. It
// has no referrers API.
type Distribution struct {
	*repotest.Server

	Host string
	Dir  string // of its content
}

// NewDistribution starts the registry, until the test ends. It skips the test outside of the real
// tier.
func NewDistribution(t testing.TB) *Distribution {
	t.Helper()
	tool.Real(t, "it needs a real registry")
	dir := t.TempDir()
	host := DockerRegistry(t, dir, "relativeurls: true", "")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host})
	server := repotest.Serve(t, proxy)
	return &Distribution{Server: server, Host: strings.TrimPrefix(server.URL, "http://"), Dir: dir}
}

// registryConfig has the folder of the content, more of the section http, and more sections.
const registryConfig = `version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}
http: {addr: "127.0.0.1:0", %s}
%s`

// listening is what the registry logs with the port that it chose.
var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)

// DockerRegistry starts Debian's docker-registry with its content in a folder, until the test ends,
// and returns its HOST:PORT. http and more are those of registryConfig.
func DockerRegistry(t testing.TB, dir, http, more string) (host string) {
	t.Helper()
	tool.Program(t, "docker-registry", "docker-registry")
	config := fmt.Sprintf(registryConfig, dir, http, more)
	file := testfile.Write(t, filepath.Join(dir, "config.yml"), config)
	var log tool.Buffer
	cmd := exec.Command("docker-registry", "serve", file)
	cmd.Stdout = &log
	cmd.Stderr = &log
	require.NoErrorf(t, cmd.Start(), "start Debian's docker-registry")
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		text := log.String()
		if t.Failed() {
			t.Logf("docker-registry, the end of its log:\n%s", text[max(0, len(text)-8<<10):])
		}
	})
	for end := time.Now().Add(30 * time.Second); ; <-time.After(10 * time.Millisecond) {
		found := listening.FindStringSubmatch(log.String())
		if found != nil {
			return found[1]
		}
		if time.Now().After(end) {
			t.Fatal("docker-registry does not listen")
		}
	}
}

// Blob is the file with the content of a blob ("sha256:...").
func (d *Distribution) Blob(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return filepath.Join(d.Dir, "docker/registry/v2/blobs/sha256", hex[:2], hex, "data")
}
