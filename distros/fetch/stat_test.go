package fetch

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStat(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("x", 12345)
	file := filepath.Join(t.TempDir(), "driver.run")
	must(t, os.WriteFile(file, []byte(data), 0o600))
	busy := false
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		switch head := r.Method == http.MethodHead; {
		case r.URL.Path == "/busy" && !busy:
			busy = true
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/nohead" && head:
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/silent" && head:
			w.Header().Set("Transfer-Encoding", "chunked")
			w.WriteHeader(http.StatusOK)
		case r.URL.Path == "/unknown":
			w.WriteHeader(http.StatusOK)
			if f, ok := w.(http.Flusher); ok && !head {
				f.Flush()
			}
		case r.URL.Path == "/missing":
			http.NotFound(w, r)
		default:
			http.ServeFile(w, r, file)
		}
	})
	c := newClient(t)
	for _, address := range []string{s.URL + "/plain", s.URL + "/busy", s.URL + "/nohead", s.URL + "/silent", "file://" + file} {
		if size, err := c.Stat(t.Context(), address); err != nil || size != int64(len(data)) {
			t.Errorf("%s: %d, %v", address, size, err)
		}
	}
	if size, err := c.Stat(t.Context(), s.URL+"/unknown"); err != nil || size != 0 {
		t.Errorf("unknown: %d, %v", size, err)
	}
	for i := range s.count() {
		if r := s.request(i); r.Method == http.MethodGet && r.Header.Get("Range") != "bytes=0-0" {
			t.Errorf("request %d gets all of %s", i, r.URL)
		}
	}
	if _, err := c.Stat(t.Context(), strings.Replace(s.URL, "http://", "http://me:secret@", 1)+"/missing"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("missing: %v", err)
	}
	if _, err := c.Stat(t.Context(), "file:///no/such/file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := c.Stat(t.Context(), "ftp://x/y"); err == nil {
		t.Error("an address of another kind was taken")
	}
	c.Offline = true
	if _, err := c.Stat(t.Context(), s.URL+"/plain"); !errors.Is(err, ErrOffline) {
		t.Errorf("offline: %v", err)
	}
}
