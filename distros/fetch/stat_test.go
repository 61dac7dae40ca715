package fetch

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func TestStat(t *testing.T) {
	t.Parallel()
	data := strings.Repeat("x", 12345)
	file := filepath.Join(t.TempDir(), "driver.run")
	require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
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
		assert.Equalf(t, int64(len(data)), require.Value(c.Stat(t.Context(), address))(t), "%s", address)
	}
	assert.Equalf(t, 0, require.Value(c.Stat(t.Context(), s.URL+"/unknown"))(t), "unknown")
	for i := range s.count() {
		if r := s.request(i); r.Method == http.MethodGet && r.Header.Get("Range") != "bytes=0-0" {
			t.Errorf("request %d gets all of %s", i, r.URL)
		}
	}
	if _, err := c.Stat(t.Context(), strings.Replace(s.URL, "http://", "http://me:secret@", 1)+"/missing"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("missing: %v", err)
	}
	assert.ErrorIsf(t, assert.Err(c.Stat(t.Context(), "file:///no/such/file")), fs.ErrNotExist, "no file")
	assert.Errorf(t, assert.Err(c.Stat(t.Context(), "ftp://x/y")), "an address of another kind was taken")
	c.Offline = true
	assert.ErrorIsf(t, assert.Err(c.Stat(t.Context(), s.URL+"/plain")), ErrOffline, "offline")
}
