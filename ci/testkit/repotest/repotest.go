// Package repotest writes .rpm and .deb packages and their repositories in Go, quickly and, where a
// test wants it, wrong in one detail; it has a server of files, keys and signatures of a fixed day,
// archives and compression for them. It shares no code with the packages that read them. The real
// programs make those of package realrepo.
package repotest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Server serves Files over HTTP and counts the requests by method and path: "GET /a".
type Server struct {
	sync.Mutex // guards the fields below URL while requests are possible

	URL      string
	Files    map[string][]byte
	Requests map[string]int
	First    func(http.ResponseWriter, *http.Request) bool // returns true if it has answered
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
	s.Requests[r.Method+" "+r.URL.Path]++
	data, found := s.Files[r.URL.Path]
	first := s.First
	s.Unlock()
	switch {
	case first != nil && first(w, r):
	case found:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	default:
		http.NotFound(w, r)
	}
}
