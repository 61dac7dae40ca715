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
	sync.Mutex // guards the maps while requests are possible

	URL      string
	Files    map[string][]byte
	Requests map[string]int

	others http.Handler
	fault  func(http.ResponseWriter, *http.Request) bool
}

// Serve starts the server of an empty set of files. It ends with the test. others answers requests
// for anything else; nil: nothing does.
func Serve(t testing.TB, others http.Handler) *Server {
	t.Helper()
	s := &Server{Files: map[string][]byte{}, Requests: map[string]int{}, others: others}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Fault sets what may answer requests first: it returns true if it has answered. nil removes it.
func (s *Server) Fault(answer func(http.ResponseWriter, *http.Request) bool) {
	s.Lock()
	defer s.Unlock()
	s.fault = answer
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	s.Requests[r.Method+" "+r.URL.Path]++
	data, found := s.Files[r.URL.Path]
	fault := s.fault
	s.Unlock()
	switch {
	case fault != nil && fault(w, r):
	case found:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	case s.others != nil:
		s.others.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}
