package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/bounded"
)

func TestGet(t *testing.T) {
	t.Parallel()
	data := content(300_000)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r, data) })
	c := newClient(t)
	f := File{URL: srv.URL + "/libstdc++%20a~1.run", SHA256: digest(data), Size: int64(len(data))}
	var last, total int64
	path, cached, err := c.Get(t.Context(), f, func(d, of int64) { last, total = d, of })
	if err != nil || cached {
		t.Fatalf("first Get: cached %v, %v", cached, err)
	}
	checkBlob(t, c, f, path)
	if last != f.Size || total != f.Size {
		t.Errorf("last progress = %d of %d; want %d", last, total, f.Size)
	}
	if !get(t, c, f) {
		t.Error("the second Get was not served from the store")
	}
	c.Offline = true
	if !get(t, c, f) {
		t.Error("the offline Get was not served from the store")
	}
	assert.Equalf(t, 1, srv.count(), "requests")
	c.Offline = false
	require.NoError(t, errors.Join(os.Chmod(path, 0o600), os.Truncate(path, 10)))
	assert.Equalf(t, false, get(t, c, f), "a truncated blob was served")
	assert.Equalf(t, "/libstdc%2B%2B%20a~1.run", srv.request(0).RequestURI, "Amazon S3 reads + as a blank")
	assert.Equalf(t, "identity", srv.request(0).Header.Get("Accept-Encoding"), "sizes and ranges would be of other bytes")
}

// TestGetResumes: the answers of a server, one for each request.
func TestGetResumes(t *testing.T) {
	t.Parallel()
	data := content(300_000)
	half := func(w http.ResponseWriter, _ *http.Request) { cut(w, data, 100_000) }
	rest := func(w http.ResponseWriter, r *http.Request) { whole(w, r, data) }
	pieces := []http.HandlerFunc{}
	for n := range 7 {
		pieces = append(pieces, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", "bytes "+strings.TrimPrefix(r.Header.Get("Range"), "bytes=")+"299999/300000")
			if n > 0 {
				w.WriteHeader(http.StatusPartialContent)
			} else {
				w.Header().Set("Content-Length", "300000")
			}
			_, _ = w.Write(data[n*10_000 : (n+1)*10_000])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
	}
	for name, answers := range map[string][]http.HandlerFunc{
		"body cut once": {half, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "bytes=100000-" || r.Header.Get("If-Range") == "" {
				http.Error(w, fmt.Sprint(r.Header), http.StatusBadRequest)
				return
			}
			rest(w, r)
		}},
		"body cut more often than there are attempts, but further each time": append(pieces, rest),
		"server without ranges": {half, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) }},
		"end of body is end of connection": {func(w http.ResponseWriter, _ *http.Request) {
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = buf.WriteString("HTTP/1.0 200 OK\r\n\r\n" + string(data[:1000]))
				_ = errors.Join(buf.Flush(), conn.Close())
			}
		}, rest},
		"server error in between": {half, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, rest},
		"answers with another range": {half, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 5-10/300000")
			w.WriteHeader(http.StatusPartialContent)
		}, rest},
		// Two halves that do not fit: only a third request, from the start, can settle it.
		"file changed in between, without validators": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "300000")
			_, _ = w.Write(content(100_000))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, rest, rest},
	} {
		for _, size := range []int64{300_000, 0} {
			if size == 0 && name == "end of body is end of connection" {
				continue // impossible to detect
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) { answers[n-1](w, r) })
				c := newClient(t)
				f := File{URL: srv.URL + "/x?token=secret", SHA256: digest(data), Size: size}
				if name == "file changed in between, without validators" {
					// In one process the whole first half was seen; for another process it is a half of unknown origin.
					c.Attempts = 1
					if _, _, err := c.Get(t.Context(), f, nil); !errors.Is(err, ErrUnreachable) || !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Fatalf("first Get = %v; want ErrUnreachable, io.ErrUnexpectedEOF", err)
					}
					checkEmpty(t, c.Store, blobsDir)
				}
				get(t, c, f)
				assert.Equalf(t, len(answers), srv.count(), "requests")
			})
		}
	}
}

// A client that was killed between the last byte and the rename has the whole file. It must not request a
// range past its end.
func TestGetWholePartial(t *testing.T) {
	t.Parallel()
	data := content(1000)
	srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r, data) })
	for _, size := range []int64{1000, 0} {
		c := newClient(t)
		path := filepath.Join(c.Store.dir, partialDir, digest(data))
		require.NoError(t, os.WriteFile(path, data, 0o600))
		require.NoError(t, os.WriteFile(path+".json", []byte(`{"url":"`+srv.URL+`"}`), 0o600))
		get(t, c, File{URL: srv.URL, SHA256: digest(data), Size: size})
	}
	assert.Equalf(t, 1, srv.count(), "requests; want 1, to learn that nothing is missing where the size is unknown")
}

func TestGetMismatch(t *testing.T) {
	t.Parallel()
	want, other := content(1000), content(200_000)
	tests := map[string]struct {
		body []byte
		size int64
	}{
		"other bytes, same size": {other[:1000], 1000},
		"other bytes":            {other[:1000], 0},
		"shorter":                {want[:500], 1000},
		"larger":                 {other, 1000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r, test.body) })
			c := newClient(t)
			_, _, err := c.Get(t.Context(), File{URL: srv.URL + "/dir/..%2fx y.run", SHA256: digest(want), Size: test.size}, nil)
			var e *MismatchError
			if !errors.As(err, &e) {
				t.Fatalf("Get = %v; want a MismatchError", err)
			}
			assert.Equalf(t, false, errors.Is(err, ErrUnreachable), "a mismatch is not a matter of the network")
			assert.Equalf(t, int64(len(test.body)), e.GotSize, "GotSize")
			assert.Equalf(t, 1, srv.count(), "requests")
			for _, sub := range []string{blobsDir, partialDir} {
				checkEmpty(t, c.Store, sub)
			}
		})
	}
}

func TestGetStatus(t *testing.T) {
	t.Parallel()
	data := content(10)
	tests := map[int]struct {
		requests int
		missing  bool
	}{404: {1, true}, 410: {1, true}, 401: {1, false}, 403: {1, false}, 408: {3, false}, 429: {3, false}, 500: {3, false}, 503: {3, false}}
	for code, test := range tests {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			srv := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
			c := newClient(t)
			withSecret := strings.Replace(srv.URL, "http://", "http://user:hunter2@", 1) + "/f?sig=hunter3"
			_, _, err := c.Get(t.Context(), File{URL: withSecret, SHA256: digest(data)}, nil)
			var status *StatusError
			if !errors.Is(err, ErrUnreachable) || !errors.As(err, &status) || status.Code != code {
				t.Errorf("Get = %v; want ErrUnreachable with a StatusError %d", err, code)
			}
			assert.Equalf(t, test.missing, errors.Is(err, fs.ErrNotExist), "%v is fs.ErrNotExist", err)
			host := strings.TrimPrefix(srv.URL, "http://")
			if !strings.Contains(err.Error(), host) || strings.Contains(err.Error(), "hunter") || strings.Contains(status.URL, "hunter") {
				t.Errorf("error %q names not the host, or a secret", err)
			}
			assert.Equalf(t, test.requests, srv.count(), "requests")
			_, _, err = c.Get(t.Context(), File{URL: withSecret, SHA256: digest(data), Listed: true}, nil)
			assert.Equalf(t, code == http.StatusNotFound || test.requests == 3, srv.count() == test.requests+3, "%d requests with those of a listed file: %v", srv.count(), err)
		})
	}
}

func TestGetNoServer(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(nil)
	srv.Close()
	c := newClient(t)
	_, _, err := c.Get(t.Context(), File{URL: strings.Replace(srv.URL, "//", "//me:hunter2@", 1), SHA256: digest(nil)}, nil)
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "after 3 tries") || strings.Contains(err.Error(), "hunter") {
		t.Errorf("Get = %v; want ErrUnreachable after 3 tries, no secret", err)
	}
}

func TestGetRefuses(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.Offline = true
	tests := map[string]struct {
		file File
		is   error
	}{
		"offline":        {File{URL: "https://example.com/x", SHA256: digest(nil)}, ErrOffline},
		"no digest":      {File{URL: "https://example.com/x"}, nil},
		"upper case":     {File{URL: "https://example.com/x", SHA256: strings.ToUpper(digest(nil))}, nil},
		"ftp":            {File{URL: "ftp://me:hunter2@example.com/x", SHA256: digest(nil)}, nil},
		"no host":        {File{URL: "https:///x", SHA256: digest(nil)}, nil},
		"not a URL":      {File{URL: "http://me:hunter2@exa mple.com/%zz", SHA256: digest(nil)}, nil},
		"remote file":    {File{URL: "file://host/x", SHA256: digest(nil)}, nil},
		"no such file":   {File{URL: "file:///nonexistent", SHA256: digest(nil)}, fs.ErrNotExist},
		"file is folder": {File{URL: "file:///", SHA256: digest(nil)}, bounded.ErrNotRegular},
	}
	for name, test := range tests {
		_, _, err := c.Get(t.Context(), test.file, nil)
		if err == nil || test.is != nil && !errors.Is(err, test.is) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: Get = %v; want %v", name, err, test.is)
		}
	}
}

func TestGetFile(t *testing.T) {
	t.Parallel()
	data := content(600_000)
	path := filepath.Join(t.TempDir(), "a b.run")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	c := newClient(t)
	c.Offline = true // a local file is no download
	url := "file://" + strings.ReplaceAll(path, " ", "%20")
	for _, size := range []int64{5, 0} {
		_, _, err := c.Get(t.Context(), File{URL: url, SHA256: digest(nil), Size: size}, nil)
		if _, ok := errors.AsType[*MismatchError](err); !ok {
			t.Errorf("size %d: Get = %v; want a MismatchError", size, err)
		}
		checkEmpty(t, c.Store, partialDir)
	}
	get(t, c, File{URL: url, SHA256: digest(data), Size: int64(len(data))})
}

func TestGetRedirects(t *testing.T) {
	t.Parallel()
	data := content(1000)
	plain := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/file", http.StatusFound)
			return
		}
		whole(w, r, data)
	})
	get(t, newClient(t), File{URL: plain.URL + "/moved", SHA256: digest(data)})
	for name, test := range map[string]struct {
		to   func(self string) string
		want error
	}{
		"to http": {func(string) string { return plain.URL + "/file?sig=hunter2" }, errDowngrade},
		"circle":  {func(self string) string { return self }, errRedirects},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := 0
			var tls *httptest.Server
			tls = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				http.Redirect(w, r, test.to(tls.URL), http.StatusFound)
			}))
			defer tls.Close()
			c := newClient(t)
			c.HTTP = tls.Client()
			_, _, err := c.Get(t.Context(), File{URL: tls.URL, SHA256: digest(data)}, nil)
			if !errors.Is(err, ErrUnreachable) || !errors.Is(err, test.want) || strings.Contains(err.Error(), "hunter") {
				t.Errorf("Get = %v; want %v", err, test.want)
			}
			assert.Equalf(t, true, requests <= maxRedirects, "%d requests: it was tried again", requests)
		})
	}
	t.Run("unknown authority", func(t *testing.T) {
		t.Parallel()
		tls := httptest.NewUnstartedServer(http.NotFoundHandler())
		tls.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs the failed handshake
		tls.StartTLS()
		defer tls.Close()
		_, _, err := newClient(t).Get(t.Context(), File{URL: tls.URL, SHA256: digest(data)}, nil)
		if !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "tries") {
			t.Errorf("Get = %v; want ErrUnreachable at the first try", err)
		}
	})
}

func TestGetStalls(t *testing.T) {
	t.Parallel()
	data := content(300_000)
	srv := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		switch n {
		case 1: // no header
			<-r.Context().Done()
		case 2: // no further byte
			w.Header().Set("Content-Length", "300000")
			_, _ = w.Write(data[:1000])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			whole(w, r, data)
		}
	})
	c := newClient(t)
	c.Stall, c.Attempts = 300*time.Millisecond, 50 // a busy machine stalls, too
	get(t, c, File{URL: srv.URL, SHA256: digest(data), Size: 300_000})
	c.Attempts = 1
	srv2 := serve(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if _, _, err := c.Get(t.Context(), File{URL: srv2.URL, SHA256: digest(nil)}, nil); !errors.Is(err, errStalled) || !errors.Is(err, ErrUnreachable) {
		t.Errorf("Get = %v; want ErrUnreachable, errStalled", err)
	}
}

func TestRetryWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Client{Attempts: 4, Backoff: time.Second}
		u, err := parseURL("https://example.com/x")
		require.NoError(t, err)
		resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}}
		begin, tries := time.Now(), 0
		err = c.retry(t.Context(), u, func(context.Context) (bool, error) {
			tries++
			if tries == 1 {
				return false, statusError(resp, u)
			}
			return false, errStalled
		})
		// 60 as the server requested, then half to whole of 2 and of 4 seconds.
		if took := time.Since(begin); tries != 4 || took < 63*time.Second || took > 66*time.Second {
			t.Errorf("%d tries in %v; want 4 in 63 to 66 s", tries, took)
		}
		assert.ErrorIsf(t, err, ErrUnreachable, "retry")
		when := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
		for header, want := range map[string]time.Duration{when: 90 * time.Second, "999999": maxRetryAfter, "-5": 0, "soon": 0, "": 0} {
			resp.Header.Set("Retry-After", header)
			if got := statusError(resp, u).retryAfter; got < want-time.Second || got > want {
				t.Errorf("Retry-After %q: %v; want %v", header, got, want)
			}
		}
	})
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes 5-9/*", "bytes */10", "bytes -1-2/3", "bytes 9/8", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, total, ok := contentRange(s)
		if ok && (first < 0 || total != 0 && total <= first) {
			t.Errorf("contentRange(%q) = %d, %d", s, first, total)
		}
	})
}
