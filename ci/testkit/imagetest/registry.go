package imagetest

import (
	"net/http"
	"sync"
	"testing"

	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"
)

// NewRegistry returns an empty registry in memory with the referrers API, until the test ends. It is
// strict: a manifest needs its blobs, and blobs belong to repositories. It passes the conformance
// suite of distribution-spec 1.1, except for layers that must not be distributed. The registry of
// go-containerregistry fails most of it.
func NewRegistry(t testing.TB) http.Handler {
	t.Helper()
	server := olareg.New(config.Config{
		Storage: config.ConfigStorage{
			StoreType: config.StoreMem,
			GC:        config.ConfigGC{Frequency: -1},
		},
	})
	t.Cleanup(func() { _ = server.Close() }) // a second call would be the only error
	// Of two referrers that come at once olareg 0.1.2 loses one.
	var puts sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			puts.Lock()
			defer puts.Unlock()
		}
		server.ServeHTTP(w, r)
	})
}
