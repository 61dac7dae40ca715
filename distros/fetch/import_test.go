package fetch

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
)

func TestImport(t *testing.T) {
	t.Parallel()
	data := content(300_000)
	srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			if n == 1 {
				cut(w, data, 100_000)
			}
			whole(w, r, data)
		case "/gone":
			w.WriteHeader(http.StatusNotFound)
		case "/endless":
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = buf.WriteString("HTTP/1.0 200 OK\r\n\r\nhalf")
				_ = errors.Join(buf.Flush(), conn.Close())
			}
		}
	})
	c := newClient(t)
	var last int64
	sum, size, err := c.Import(t.Context(), srv.URL+"/cut", 400_000, func(done, _ int64) { last = done })
	if err != nil || sum != digest(data) || size != 300_000 || last != size || !c.Store.Has(sum) {
		t.Errorf("Import = %s, %d, %v; progress %d", sum, size, err, last)
	}
	file := filepath.Join(t.TempDir(), "a.run")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	if sum, _, err := c.Import(t.Context(), "file://"+file, 300_000, nil); err != nil || sum != digest(data) {
		t.Errorf("a local file: %s, %v", sum, err)
	}
	for url, want := range map[string]error{"file://" + file: ErrTooLarge, srv.URL + "/cut": ErrTooLarge, srv.URL + "/gone": fs.ErrNotExist, "file:///no/such": fs.ErrNotExist} {
		if _, _, err := c.Import(t.Context(), url, 299_999, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", url, err, want)
		}
	}
	if _, _, err := c.Import(t.Context(), srv.URL+"/endless", 400_000, nil); err == nil {
		t.Error("a body without an end was taken for whole")
	}
	c.Offline = true
	if _, _, err := c.Import(t.Context(), srv.URL+"/cut", 400_000, nil); !errors.Is(err, ErrOffline) {
		t.Errorf("offline: %v", err)
	}
}
