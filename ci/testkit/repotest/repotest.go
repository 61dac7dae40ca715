// Package repotest has what the tests of package repositories share: a server of files, keys and signatures
// of a fixed day, archives and compression. It knows no format of a repository; packtest and debtest write
// repositories with it.
package repotest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Server serves Files over HTTP and counts the requests by path.
type Server struct {
	sync.Mutex // guards the maps while requests are possible

	URL      string
	Files    map[string][]byte
	Requests map[string]int
}

// Serve starts the server of an empty set of files. It ends with the test.
func Serve(t testing.TB) *Server {
	t.Helper()
	s := &Server{Files: map[string][]byte{}, Requests: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	s.Requests[r.URL.Path]++
	data, ok := s.Files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}
