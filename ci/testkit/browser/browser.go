// Package browser looks at pages with Debian's Chromium. One server has the pages and is the proxy
// for all hosts, so that a test sees each request, and none leaves the machine. The package does
// not judge pages.
package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// Browser is Chromium with the only server that it reaches.
type Browser struct {
	*httptest.Server
	mu       sync.Mutex
	requests []Request
}

// Request is one that Chromium made.
type Request struct {
	Host, Path string
	Status     int // of the answer
}

// New starts the server, with content for its pages. It skips the test outside of the real tier.
func New(t *testing.T, content http.Handler) *Browser {
	t.Helper()
	tool.Real(t, "needs Chromium")
	tool.Program(t, "chromium", "chromium")
	b := &Browser{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &recorder{ResponseWriter: w, status: http.StatusOK}
		if r.Host != b.host() || r.Method == http.MethodConnect {
			http.NotFound(answer, r)
		} else {
			content.ServeHTTP(answer, r)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.requests = append(
			b.requests,
			Request{Host: r.Host, Path: r.URL.Path, Status: answer.status},
		)
	}))
	t.Cleanup(b.Close)
	return b
}

type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (b *Browser) host() string { return strings.TrimPrefix(b.URL, "http://") }

// Run starts Chromium on a path of the server and returns what it wrote to stdout. Chromium ends by
// itself when the flags ask for a picture, a PDF or the document; otherwise the caller cancels ctx,
// which has the limit too.
func (b *Browser) Run(ctx context.Context, t *testing.T, path string, flags ...string) string {
	t.Helper()
	all := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(),
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps",
		"--disable-features=OptimizationHints,MediaRouter,Translate", "--metrics-recording-only", "--no-pings",
		"--proxy-server=" + b.URL, "--proxy-bypass-list=<-loopback>",
	}, flags...)
	cmd := exec.CommandContext(ctx, "chromium", append(all, b.URL+path)...)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	err := cmd.Run()
	ended := errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, exec.ErrWaitDelay)
	if err != nil && !ended {
		t.Fatalf("chromium %s: %v\n%s", path, err, stderr.String())
	}
	return stdout.String()
}

// own are the hosts that Chromium asks for its updates and its clock, whatever page it shows.
var own = regexp.MustCompile(`^[a-z0-9.-]+\.(google|googleapis|gvt1)\.com(:443)?$`)

// Requests returns what the pages asked the server for, and a line for each request to another
// host.
func (b *Browser) Requests() (answered []Request, foreign []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests {
		switch {
		case r.Host == b.host():
			answered = append(answered, r)
		case !own.MatchString(r.Host):
			foreign = append(foreign, fmt.Sprintf("%s%s", r.Host, r.Path))
		}
	}
	return answered, foreign
}
