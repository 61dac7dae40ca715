package imagetest

import (
	"io"
	"log"
	"net/http"
	"strings"
	"testing"

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
	*repotest.Server

	Host     string // of the server; its registry has the same address
	Runs     map[string][]byte
	Archives map[string]*repotest.Archive // by system

	rows    string   // of systems, in the matrix
	drivers []string // versions in the matrix
	t       testing.TB
	key     *openpgp.Entity
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
	images := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := repotest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := http.NotFound
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			answer = images.ServeHTTP
		}
		answer(w, r)
	}))
	return &World{
		Server:   server,
		Host:     strings.TrimPrefix(server.URL, "http://"),
		Runs:     map[string][]byte{},
		Archives: map[string]*repotest.Archive{},
		t:        t,
		key:      repotest.Key("imagetest", 0),
	}
}

// Put serves data under a path that begins with a slash.
func (w *World) Put(path string, data []byte) {
	w.Lock()
	defer w.Unlock()
	w.Files[path] = data
}

// File returns the data that are served under a path.
func (w *World) File(path string) []byte {
	w.Lock()
	defer w.Unlock()
	return w.Files[path]
}

// Requests returns the number of requests so far whose method and path ("GET /v2/") contain part.
func (w *World) Requests(part string) (n int) {
	w.Lock()
	defer w.Unlock()
	for request, count := range w.Server.Requests {
		if strings.Contains(request, part) {
			n += count
		}
	}
	return n
}
