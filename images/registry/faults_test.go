package registry

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
)

const secret = "hunter2-secret"

type login struct{ user, password string }

func (l login) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.FromConfig(authn.AuthConfig{Username: l.user, Password: l.password}), nil
}

// basic requires a password.
func basic(w http.ResponseWriter, r *http.Request) bool {
	if u, p, ok := r.BasicAuth(); ok && u == "me" && p == secret {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="fake"`)
	http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
	return true
}

// bearer requires a token, which is valid for a few requests and only for the scope that it was issued for.
func bearer(f *fake, lasts int64) func(http.ResponseWriter, *http.Request) bool {
	var used atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			if basic(w, r) {
				return true
			}
			used.Store(0)
			token := base64.RawURLEncoding.EncodeToString([]byte(strings.Join(r.URL.Query()["scope"], " ")))
			_ = json.NewEncoder(w).Encode(map[string]string{"token": token})
			return true
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		scopes, err := base64.RawURLEncoding.DecodeString(token)
		repo, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/blobs/")
		repo, _, _ = strings.Cut(repo, "/manifests/")
		need := "repository:" + repo + ":"
		if from := r.URL.Query().Get("from"); from != "" && !strings.Contains(string(scopes), "repository:"+from+":pull") {
			err = errors.New("no scope for the source")
		}
		if err == nil && token != "" && strings.Contains(string(scopes), need) && used.Add(1) <= lasts {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+f.URL+`/token",service="fake",scope="`+need+`pull,push"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"no"}]}`, http.StatusUnauthorized)
		return true
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *fake) func(http.ResponseWriter, *http.Request) bool{
		"basic":           func(*fake) func(http.ResponseWriter, *http.Request) bool { return basic },
		"bearer":          func(f *fake) func(http.ResponseWriter, *http.Request) bool { return bearer(f, 1000) },
		"tokens expiring": func(f *fake) func(http.ResponseWriter, *http.Request) bool { return bearer(f, 3) },
	}
	for name, guard := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.failing(guard(f))
			img := imagetest.RandomImage(t, "amd64", 1000, "one", "two")
			c := client(t, func(o *Options) { o.Keychain, o.Jobs, o.Attempts = login{"me", secret}, 1, 6 })
			if _, stats, err := c.Push(t.Context(), f.host()+"/library/x:1", img); err != nil || stats.Uploaded != 3 {
				t.Fatalf("push: %+v, %v", stats, err)
			}
			if _, err := base(t, c, f.host()+"/library/x:1", "amd64"); err != nil {
				t.Fatalf("pull: %v", err)
			}
			if _, stats, err := c.Push(t.Context(), f.host()+"/team/y:1", img); err != nil || stats.Mounted != 3 {
				t.Fatalf("mount: %+v, %v", stats, err)
			}
			for _, keys := range []login{{}, {"me", "wrong-" + secret}} {
				f.forget()
				c := client(t, func(o *Options) { o.Keychain = keys })
				_, err := base(t, c, f.host()+"/library/x:1", "amd64")
				require.ErrorAs[*Error](t, err)
				for _, want := range []string{"docker login " + f.host(), "podman login " + f.host()} {
					assert.Contains(t, err.Error(), want)
				}
				hidden := base64.StdEncoding.EncodeToString([]byte("me:wrong-" + secret))
				if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), hidden) {
					t.Errorf("%v tells the password", err)
				}
				if len(f.log) > 4 {
					t.Errorf("it was tried again and again: %v", f.log)
				}
			}
		})
	}
}

// faulty answers the first n matching requests with a fault.
func faulty(n int64, part string, fault func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.Method+" "+r.URL.Path, part) || seen.Add(1) > n {
			return false
		}
		fault(w, r)
		return true
	}
}

func answers(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"errors":[{"code":"X","message":"told\u001b[31m so"}]}`, code)
	}
}

func slowDown(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
}

func TestPullFaults(t *testing.T) {
	t.Parallel()
	half := func(f *fake) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			repo, digest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/blobs/")
			b := f.blobs[repo][digest]
			w.Header().Set("ETag", `"`+digest+`"`)
			w.Header().Set("Content-Length", "99999")
			_, _ = w.Write(b[:len(b)/2])
			_ = http.NewResponseController(w).Flush()
			cut(w)
		}
	}
	gone := func(w http.ResponseWriter, _ *http.Request) { cut(w) }
	is := func(f func(http.ResponseWriter, *http.Request)) func(*fake) func(http.ResponseWriter, *http.Request) {
		return func(*fake) func(http.ResponseWriter, *http.Request) { return f }
	}
	tests := []struct {
		name  string
		n     int64
		part  string
		fault func(*fake) func(http.ResponseWriter, *http.Request)
		want  string // substring of the error; "" for success
		tries int    // requests that match
		slow  time.Duration
	}{
		{"manifest 429", 1, "HEAD /v2/x/manifests", is(slowDown), "", 2, time.Second},
		{"manifest 500 thrice", 3, "HEAD /v2/x/manifests", is(answers(500)), "", 4, 0},
		{"manifest 503 for good", 99, "HEAD /v2/x/manifests", is(answers(503)), "503", 4, 0},
		{"manifest cut", 2, "GET /v2/x/manifests", is(gone), "", 3, 0},
		{"manifest 404", 99, "HEAD /v2/x/manifests", is(answers(404)), "no such image", 1, 0},
		{"manifest 401", 99, "HEAD /v2/x/manifests", is(answers(401)), "podman login", 1, 0},
		{"manifest 403", 99, "GET /v2/x/manifests", is(answers(403)), "do not allow to pull from", 1, 0},
		{"manifest 400", 99, "GET /v2/x/manifests", is(answers(400)), "400 Bad Request (X told [31m so)", 1, 0},
		{"no HEAD", 99, "HEAD /v2/x/manifests", is(answers(405)), "", 1, 0},
		{"blob 500 thrice", 3, "GET /v2/x/blobs", is(answers(500)), "", 5, 0},
		{"blob 404", 99, "GET /v2/x/blobs", is(answers(404)), "no such image, tag or blob", 1, 0},
		{"blobs cut", 3, "GET /v2/x/blobs", half, "", 0, 0},
		{"blobs cut for good", 99, "GET /v2/x/blobs", is(gone), "unreachable", 0, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			img := imagetest.RandomImage(t, "amd64", 5000, "one")
			mustPush(t, f.host()+"/x:1", img)
			f.failing(faulty(tc.n, tc.part, tc.fault(f)))
			f.forget()
			start := time.Now()
			b, err := base(t, client(t), f.host()+"/x:1", "amd64")
			if d := time.Since(start); d < tc.slow {
				t.Errorf("it took %v; the server asked for %v", d, tc.slow)
			}
			method, part, _ := strings.Cut(tc.part, " ")
			if n := f.count(method, part); tc.tries != 0 && n != tc.tries {
				t.Errorf("%d requests; want %d", n, tc.tries)
			}
			if tc.want == "" {
				require.NoError(t, err)
				imagetest.SameLayers(t, b.Image, img)
				return
			}
			e := require.ErrorAs[*Error](t, err)
			if e.Host != f.host() || !errors.Is(err, fetch.ErrUnreachable) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q; want one of host %s with %q", err, f.host(), tc.want)
			}
			if strings.Contains(tc.name, "404") && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v is not fs.ErrNotExist", err)
			}
		})
	}
}

func TestPullLies(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"GET /v2/x/blobs", "GET /v2/x/manifests"} {
		f := newFake(t)
		mustPush(t, f.host()+"/x:1", imagetest.RandomImage(t, "amd64", 100, "one"))
		f.failing(faulty(99, part, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
		_, err := base(t, client(t), f.host()+"/x:1", "amd64")
		require.ErrorAs[*fetch.MismatchError](t, err)
		assert.Equalf(t, false, errors.Is(err, fetch.ErrUnreachable), "%s: %v is of the network; want of the content", part, err)
	}
}

func TestPrivateCA(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	s := httptest.NewUnstartedServer(f)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "https://")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	img := imagetest.RandomImage(t, "amd64", 100, "one")
	for name, with := range map[string]func(*Options){
		"CA":       func(o *Options) { o.CAFile = ca },
		"insecure": func(o *Options) { o.Insecure = true },
	} {
		if _, _, err := client(t, with).Push(t.Context(), host+"/x:"+name, img); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	start := time.Now()
	_, _, err := client(t, func(o *Options) { o.Backoff = time.Hour }).Push(t.Context(), host+"/x:1", img)
	require.ErrorAs[*Error](t, err)
	if !strings.Contains(err.Error(), "--ca") || time.Since(start) > time.Minute {
		t.Errorf("after %v: %v; want a hint at --ca, at once", time.Since(start), err)
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "none"), "faults_test.go"} {
		assert.Errorf(t, assert.Err(New(Options{Store: client(t).opts.Store, CAFile: bad})), "CA file %s was accepted", bad)
	}
}

// A registry that redirects a download or an upload must not make the client send its credentials to the
// other host.
func TestCredentialsStayAtHome(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	img := imagetest.RandomImage(t, "amd64", 1000, "one")
	var leaked atomic.Int64
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Add(1)
		}
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(away.Close)
	f.failing(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Host != f.host() {
			return false
		}
		if basic(w, r) {
			return true
		}
		switch {
		case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/sha256:"):
			http.Redirect(w, r, away.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		case r.Method == http.MethodPost:
			rec := httptest.NewRecorder()
			f.inner.ServeHTTP(rec, r)
			w.Header().Set("Location", away.URL+rec.Header().Get("Location")+"?_state=abc")
			w.WriteHeader(http.StatusAccepted)
			return true
		}
		return false
	})
	c := client(t, func(o *Options) { o.Keychain = login{"me", secret} })
	if _, _, err := c.Push(t.Context(), f.host()+"/x:1", img); err != nil {
		t.Fatal(err)
	}
	require.Value(base(t, c, f.host()+"/x:1", "amd64"))(t)
	if leaked.Load() != 0 {
		t.Errorf("credentials went to another host %d times", leaked.Load())
	}
}

// The client gives up on a registry that takes no more bytes or never answers, and tries again.
func TestPushStalls(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int64{"for a while": 2, "for good": 99} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			done := make(chan struct{})
			f.failing(faulty(n, "PATCH", func(http.ResponseWriter, *http.Request) { <-done }))
			c := client(t, func(o *Options) {
				if n == 2 {
					o.Attempts = 20 // a busy machine stalls, too
				}
			})
			c.limits = limits{request: time.Second, commit: 300 * time.Millisecond}
			_, stats, err := c.Push(t.Context(), f.host()+"/x:1", imagetest.RandomImage(t, "amd64", 1000, "one"))
			close(done)
			if n == 2 && (err != nil || stats.Uploaded != 2) {
				t.Errorf("Push = %+v, %v; want 2 uploaded", stats, err)
			}
			if n > 2 && (err == nil || !strings.Contains(err.Error(), "too long") || !errors.Is(err, fetch.ErrUnreachable)) {
				t.Errorf("Push = %v; want a registry that takes too long", err)
			}
		})
	}
}

// Another client pushes the same blobs at the same moment: the registry misses one of them for a while.
func TestPushBlobUnknown(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int64{"for a while": 2, "for good": 99} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.failing(faulty(n, "PUT /v2/x/manifests/", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"errors":[{"code":"DIGEST_INVALID","message":"provided digest did not match"},{"code":"MANIFEST_BLOB_UNKNOWN","message":"blob unknown"}]}`)
			}))
			_, _, err := client(t).Push(t.Context(), f.host()+"/x:1", imagetest.RandomImage(t, "amd64", 1000, "one"))
			if n == 2 {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, "MANIFEST_BLOB_UNKNOWN")
				assert.Equalf(t, 4, f.count("PUT", "/manifests/"), "attempts")
			}
		})
	}
}
