package supplychain

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// Registries starts the registries of RegistryWithReferrers and RegistryWithoutReferrers. The test runs once
// on each.
func Registries(t *testing.T, test func(t *testing.T, host string)) {
	t.Helper()
	for name, start := range map[string]func(testing.TB) string{"referrers": RegistryWithReferrers, "distribution": RegistryWithoutReferrers} {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

// RegistryWithReferrers starts go-containerregistry's registry on loopback, without TLS, and returns its
// HOST:PORT. It has the referrers API, in random order and with the media type of the config as artifactType.
func RegistryWithReferrers(t testing.TB) string {
	t.Helper()
	return inProcess(t, true)
}

func inProcess(t testing.TB, referrers bool) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(referrers), registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// RegistryWithoutReferrers starts Debian's docker-registry (CNCF's Distribution) on loopback, without TLS,
// and returns its HOST:PORT. It answers 404 to the referrers API.
func RegistryWithoutReferrers(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `version: 0.1
log: {level: info}
storage: {filesystem: {rootdirectory: %q}}
http: {addr: "127.0.0.1:0"}
`, dir), 0o600))
	cmd := exec.CommandContext(t.Context(), "docker-registry", "serve", config)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	read, logged := io.Pipe()
	cmd.Stderr, cmd.Stdout = logged, logged
	require.NoErrorf(t, cmd.Start(), "start Debian's docker-registry")
	t.Cleanup(func() { // t.Context() has ended: the server is killed
		_ = cmd.Wait()
		_ = logged.Close()
	})
	found := make(chan string, 1)
	go listening(read, found)
	select {
	case host := <-found:
		return host
	case <-time.After(30 * time.Second):
		t.Fatal("docker-registry did not begin to listen")
		return ""
	}
}

// listening reads the log of docker-registry to its end, and sends the address that the server chose.
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
