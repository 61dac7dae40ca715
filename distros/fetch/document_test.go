package fetch

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/bounded"
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
			require.NoError(t, os.Remove(c.Store.Path(digest([]byte("two")))))
			require.NoError(t, os.WriteFile(c.Store.Path(digest([]byte("two"))), []byte("owt"), 0o600))
			check("two", nil) // nor one whose blob is damaged
			c.Offline = true
			check("two", nil)
			checkEmpty(t, c.Store, partialDir)
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
		assert.ErrorIsf(t, assert.Err(c.Latest(t.Context(), url, 999)), bounded.ErrTooLarge, "Latest(%s, 999)", url)
	}
	assert.ErrorIsf(t, assert.Err(c.Latest(t.Context(), "file:///nonexistent", 10)), fs.ErrNotExist, "Latest(missing file)")
}

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
	sum, _, err = c.Import(t.Context(), "file://"+file, 300_000, nil)
	assert.Equalf(t, digest(data), sum, "a local file: %v", err)
	for url, want := range map[string]error{"file://" + file: bounded.ErrTooLarge, srv.URL + "/cut": bounded.ErrTooLarge, srv.URL + "/gone": fs.ErrNotExist, "file:///no/such": fs.ErrNotExist} {
		_, _, err := c.Import(t.Context(), url, 299_999, nil)
		assert.ErrorIsf(t, err, want, "%s", url)
	}
	_, _, err = c.Import(t.Context(), srv.URL+"/endless", 400_000, nil)
	assert.Errorf(t, err, "a body without an end was taken for whole")
	c.Offline = true
	_, _, err = c.Import(t.Context(), srv.URL+"/cut", 400_000, nil)
	assert.ErrorIs(t, err, ErrOffline)
}

func TestStat(t *testing.T) {
	t.Parallel()
	date := time.Date(2026, 6, 20, 10, 0, 0, 0, time.UTC)
	data := strings.Repeat("x", 12345)
	file := filepath.Join(t.TempDir(), "driver.run")
	require.NoError(t, errors.Join(os.WriteFile(file, []byte(data), 0o600), os.Chtimes(file, date, date)))
	busy := false
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/busy" && !busy:
			busy = true
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/unknown":
			w.Header().Set("Last-Modified", "yesterday")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		case r.URL.Path == "/missing":
			http.NotFound(w, r)
		default:
			http.ServeFile(w, r, file)
		}
	})
	c := newClient(t)
	for _, address := range []string{s.URL + "/plain", s.URL + "/busy", "file://" + file} {
		size, changed, err := c.Stat(t.Context(), address)
		if err != nil || size != int64(len(data)) || !changed.Equal(date) {
			t.Errorf("%s: %d, %s, %v", address, size, changed, err)
		}
	}
	if size, changed, err := c.Stat(t.Context(), s.URL+"/unknown"); err != nil || size != 0 || !changed.IsZero() {
		t.Errorf("unknown: %d, %s, %v", size, changed, err)
	}
	for i := range s.count() {
		if r := s.request(i); r.Header.Get("Range") != "bytes=0-0" {
			t.Errorf("request %d gets all of %s", i, r.URL)
		}
	}
	stat := func(address string) error { _, _, err := c.Stat(t.Context(), address); return err }
	err := stat(strings.Replace(s.URL, "http://", "http://me:secret@", 1) + "/missing")
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("missing: %v", err)
	}
	assert.ErrorIsf(t, stat("file:///no/such/file"), fs.ErrNotExist, "no file")
	assert.Errorf(t, stat("ftp://x/y"), "an address of another kind was taken")
	c.Offline = true
	assert.ErrorIsf(t, stat(s.URL+"/plain"), ErrOffline, "offline")
}

func TestAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a b")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for value, want := range map[string]string{
		"https://h.example/x.run": "https://h.example/x.run", "http://h.example:80/a%20b": "http://h.example:80/a%20b", "file:///x": "file:///x",
		file: "file://" + dir + "/a%20b",
	} {
		assert.Equalf(t, want, require.Value(Address("--x", value))(t), "%q", value)
	}
	for value, says := range map[string]string{
		"": "folder", dir: "a folder", "/none": "/none", "ftp://h.example/x": "scheme ftp", "https:///x": "no host", "https://h.example/a b": "blank", "://": "--x",
		"http://me:secret@h.example/\x01": "", "http://me:secret@[h.example/x": "",
	} {
		_, err := Address("--x", value)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--x") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", value, err, says)
		}
	}
	assert.ErrorContains(t, CheckURL("h.example/x"), "it is no URL")
}
