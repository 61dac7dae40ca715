package imagetest

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
)

// The drivers of a world.
const (
	OldDriver = "418.87.01" // a .run archive, amd64 only, without open modules or firmware
	// a .run archive for both architectures, and Debian's packages for debian12
	NewDriver = "535.261.03"
)

// World is a server with everything that a build downloads.
type World struct {
	URL      string // of the server, without a final slash
	Host     string // of the server; its registry has the same address
	Runs     map[string][]byte
	Archives map[string]*repotest.Archive // by system

	rows     string   // of systems, in the matrix
	drivers  []string // versions in the matrix
	t        testing.TB
	key      *openpgp.Entity
	mu       sync.Mutex
	files    map[string][]byte
	requests map[string]int
	faulty
}

// New starts a world with debian12 (amd64, arm64), ubuntu16.04 and ubuntu18.04 (amd64), all
// published.
func New(t testing.TB) *World {
	t.Helper()
	w := start(t)
	for _, s := range systems {
		if s.row != fleetRow {
			w.addSystem(s)
		}
	}
	w.addDriver(OldDriver, "amd64")
	w.addDriver(NewDriver, "amd64", "arm64")
	return w
}

// start returns a world with a registry, a key and nothing else.
func start(t testing.TB) *World {
	w := &World{
		t:        t,
		Runs:     map[string][]byte{},
		Archives: map[string]*repotest.Archive{},
		files:    map[string][]byte{},
		requests: map[string]int{},
	}
	w.key = repotest.Key("imagetest", 0)
	images := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(
		http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.serve(images, rw, r) }),
	)
	t.Cleanup(server.Close)
	w.URL = server.URL
	w.Host = strings.TrimPrefix(server.URL, "http://")
	return w
}

func (w *World) serve(images http.Handler, rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.requests[r.Method+" "+r.URL.Path]++
	data, ok := w.files[r.URL.Path]
	w.mu.Unlock()
	switch {
	case w.answers(rw, r):
	case strings.HasPrefix(r.URL.Path, "/v2/"):
		images.ServeHTTP(rw, r)
	case ok:
		http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(data))
	default:
		http.NotFound(rw, r)
	}
}

// faulty is a server with faults.
type faulty struct {
	fault atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

// Fault sets a handler that may answer requests first: it returns true if it has answered. nil
// removes the handler.
func (f *faulty) Fault(
	answer func(http.ResponseWriter, *http.Request) bool,
) {
	f.fault.Store(&answer)
}

func (f *faulty) answers(w http.ResponseWriter, r *http.Request) bool {
	answer := f.fault.Load()
	return answer != nil && *answer != nil && (*answer)(w, r)
}

// Put serves data under a path that begins with a slash.
func (w *World) Put(path string, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files[path] = data
}

// File returns the data that are served under a path.
func (w *World) File(path string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.files[path]
}

// Requests returns the number of requests so far whose method and path ("GET /v2/") contain part.
func (w *World) Requests(part string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for request, count := range w.requests {
		if strings.Contains(request, part) {
			n += count
		}
	}
	return n
}
