package fetch

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

func TestModified(t *testing.T) {
	t.Parallel()
	const date = "Sat, 20 Jun 2026 10:00:00 GMT"
	busy := false
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			if busy = !busy; busy {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Last-Modified", date)
		case "/dated":
			w.Header().Set("Last-Modified", date)
		case "/odd":
			w.Header().Set("Last-Modified", "yesterday")
		case "/silent":
		default:
			http.NotFound(w, r)
		}
	})
	c := newClient(t)
	want := time.Date(2026, 6, 20, 10, 0, 0, 0, time.UTC)
	for path, want := range map[string]time.Time{"/busy": want, "/dated": want, "/odd": {}, "/silent": {}} {
		if got, err := c.Modified(t.Context(), s.URL+path); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v; want %v", path, got, err, want)
		}
	}
	for i := range s.count() {
		assert.Equalf(t, http.MethodHead, s.request(i).Method, "request %d is", i)
	}
	if _, err := c.Modified(t.Context(), strings.Replace(s.URL, "http://", "http://me:secret@", 1)+"/missing"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("missing: %v", err)
	}
	assert.Errorf(t, assert.Err(c.Modified(t.Context(), "ftp://x/y")), "an address of another kind was taken")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIsf(t, assert.Err(c.Modified(ctx, s.URL+"/dated")), context.Canceled, "cancelled")
	c.Offline = true
	assert.ErrorIsf(t, assert.Err(c.Modified(t.Context(), s.URL+"/dated")), ErrOffline, "offline")
}

func TestModifiedFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.deb")
	when := time.Date(2026, 6, 20, 10, 0, 0, 0, time.UTC)
	require.NoError(t, errors.Join(os.WriteFile(file, nil, 0o600), os.Chtimes(file, when, when)))
	c := newClient(t)
	if got, err := c.Modified(t.Context(), "file://"+file); err != nil || !got.Equal(when) {
		t.Errorf("%v, %v", got, err)
	}
	assert.ErrorIsf(t, assert.Err(c.Modified(t.Context(), "file://"+file+"x")), fs.ErrNotExist, "missing")
}
