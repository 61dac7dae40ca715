package fetch

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func TestLatest(t *testing.T) {
	t.Parallel()
	for _, validator := range []string{"ETag", "Last-Modified", "none"} {
		t.Run(validator, func(t *testing.T) {
			t.Parallel()
			current, modified, status := []byte("one"), time.Unix(1_700_000_000, 0), 0
			srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
				switch {
				case status != 0:
					w.WriteHeader(status)
				case validator == "ETag":
					whole(w, r, current)
				case validator == "Last-Modified":
					w.Header().Set("Last-Modified", modified.UTC().Format(http.TimeFormat))
					if r.Header.Get("If-Modified-Since") == w.Header().Get("Last-Modified") {
						w.WriteHeader(http.StatusNotModified)
						return
					}
					_, _ = w.Write(current)
				default:
					_, _ = w.Write(current)
				}
			})
			c := newClient(t)
			url := srv.URL + "/InRelease"
			check := func(want string, is error) {
				t.Helper()
				got, err := c.Latest(t.Context(), url, 100)
				if string(got) != want || !errors.Is(err, is) {
					t.Errorf("Latest = %q, %v; want %q, %v", got, err, want, is)
				}
			}
			c.Offline = true
			check("", ErrOffline)
			c.Offline = false
			check("one", nil)
			check("one", nil)
			current, modified = []byte("two"), modified.Add(time.Hour)
			check("two", nil)
			c.Offline = true
			check("two", nil)
			c.Offline = false
			status = http.StatusServiceUnavailable
			check("", ErrUnreachable) // never an old document without a request for it
			status = http.StatusNotFound
			check("", fs.ErrNotExist)
			status = 0
			require.NoError(t, os.Remove(c.Store.Path(digest([]byte("two")))))
			check("two", nil) // a record without its blob must not lead to a 304
			checkEmpty(t, c.Store, tmpDir)
		})
	}
}

func TestLatestBounds(t *testing.T) {
	t.Parallel()
	data := content(1000)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r, data) })
	path := filepath.Join(t.TempDir(), "Release")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	c := newClient(t)
	for _, url := range []string{srv.URL, "file://" + path} {
		if got, err := c.Latest(t.Context(), url, 1000); err != nil || digest(got) != digest(data) {
			t.Errorf("Latest(%s, 1000) = %d bytes, %v", url, len(got), err)
		}
		assert.ErrorIsf(t, assert.Err(c.Latest(t.Context(), url, 999)), ErrTooLarge, "Latest(%s, 999)", url)
	}
	assert.ErrorIsf(t, assert.Err(c.Latest(t.Context(), "file:///nonexistent", 10)), fs.ErrNotExist, "Latest(missing file)")
}
