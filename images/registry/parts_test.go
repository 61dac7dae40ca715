package registry

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for in, want := range map[string]string{
		"debian":                                "docker.io/library/debian:latest",
		"debian:12":                             "docker.io/library/debian:12",
		"docker.io/debian:12@" + digest:         "docker.io/library/debian:12",
		"registry.example:5000/a/b@" + digest:   "registry.example:5000/a/b",
		"registry.example:5000/a/b:c@" + digest: "registry.example:5000/a/b:c",
		"registry.example:5000/a/b":             "registry.example:5000/a/b:latest",
	} {
		r, err := parseReference(in)
		if err != nil || r.canonical() != want || strings.Contains(in, "@") != (r.digest.Hex != "") {
			t.Errorf("parseReference(%s) = %s %s, %v; want %s", in, r.canonical(), r.digest, err, want)
		}
	}
}

func TestMirrorNames(t *testing.T) {
	t.Parallel()
	c := client(t, func(o *Options) {
		o.Mirrors = map[string][]string{"docker.io": {"mirror.example:5000/hub/", "http://10.0.0.1", "https://plainname"}}
	})
	r := require.Value(parseReference("debian:12"))(t)
	var got []string
	for _, e := range c.endpoints(r.repo) {
		got = append(got, fmt.Sprint(e.repo.Name(), " ", e.plain, " ", e.attempts))
	}
	want := []string{
		"mirror.example:5000/hub/library/debian false 2", "10.0.0.1/library/debian true 2",
		"plainname/library/debian false 2", "index.docker.io/library/debian false 4",
	}
	assert.Same(t, want, got)
	for _, bad := range []string{"", "a b", "http://", "mirror.example/UPPER"} {
		if _, err := New(Options{Store: c.opts.Store, Mirrors: map[string][]string{"docker.io": {bad}}}); err == nil {
			t.Errorf("mirror %q was accepted", bad)
		}
	}
	assert.Errorf(t, assert.Err(New(Options{})), "a client without a store was accepted")
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	answered := func(code int) error { return statusError(&transport.Error{StatusCode: code}, 0) }
	long := statusError(&transport.Error{StatusCode: 502, Errors: []transport.Diagnostic{{Code: "X", Message: strings.Repeat("m", 1000)}}}, 0)
	for want, err := range map[string]error{
		"502 Bad Gateway (X mmm":           long,
		"refuses requests of this size":    answered(413),
		"do not allow to push to":          answered(403),
		"does not take images there":       answered(404),
		"--insecure-registry":              http.ErrSchemeMismatch,
		"it speaks plain HTTP":             tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"//host/v2/x\": no route":          errors.New("GET \"https://me:" + secret + "@host/v2/x?token=" + secret + "\": no route"),
		"blob x: it answered 500 Internal": &itemError{"blob x", answered(500)},
	} {
		got := wrapped(t.Context(), "push", "host/x:1", "host", err)
		text := got.Error()
		if !strings.HasPrefix(text, "push host/x:1: registry host: ") || !strings.Contains(text, want) {
			t.Errorf("%q; want %q", text, want)
		}
		if strings.Contains(text, secret) || len(text) > 500 || !errors.Is(got, err) {
			t.Errorf("%q tells a secret, is too long, or hides its cause", text)
		}
	}
	unknown := &net.DNSError{Err: "no such host", Name: "host", IsNotFound: true}
	for op, mirror := range map[string]bool{"push": false, "pull": true, "look at": false} {
		text := wrapped(t.Context(), op, "host/x:1", "host", unknown).Error()
		if !strings.Contains(text, "no such host: check the name") || strings.Contains(text, "--registry-mirror") != mirror {
			t.Errorf("%s: %q", op, text)
		}
	}
	if wrapped(t.Context(), "push", "x", "y", nil) != nil {
		t.Error("no error became one")
	}
}

// Whatever a registry refuses with and for what reason, its own words are in the error, before ours, on one line and
// bounded.
func TestRegistrysOwnWords(t *testing.T) {
	t.Parallel()
	document := func(text string) string {
		return string(require.Value(json.Marshal(map[string]any{"errors": []any{map[string]any{"code": "DENIED", "message": text, "detail": text + " detail"}}}))(t))
	}
	hostile := "read only \x1b[31m mode\r\n\u202e" + strings.Repeat("m", 1<<20)
	for _, code := range []int{400, 401, 403, 404, 405, 409, 413, 422} {
		for kind, body := range map[string]string{"application/json": document("read only mode"), "text/plain": "read only mode\n", "": document("read only mode"), "hostile": hostile, "bad": document(hostile[:2000])} {
			f := newFake(t)
			f.failing(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v2/" {
					return false
				}
				w.Header().Set("Content-Type", kind)
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
				return true
			})
			for _, err := range []error{client(t).CheckPush(t.Context(), f.host()+"/team/driver"), assert.Err(client(t).ListTags(t.Context(), f.host()+"/team/driver"))} {
				text := err.Error()
				words := strings.Index(text, "read only ")
				if hints := strings.Index(text, fmt.Sprint("(", code, ")")); words < 0 || hints >= 0 && hints < words {
					t.Errorf("%d %q: %s; want the registry's words first", code, kind, text)
				}
				if len(text) > 700 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%d %q: %d bytes: %q", code, kind, len(text), text)
				}
			}
		}
	}
}

// Private addresses are not loopback: go-containerregistry would send credentials to them unencrypted.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8:5000": true, "[::1]:5000": true, "localhost:5000": true, "a.localhost": true,
		"10.0.0.1:5000": false, "192.168.1.1": false, "localhost.example": false, "example:5000": false, "169.254.169.254": false,
	} {
		assert.Equalf(t, want, isLoopback(host), "isLoopback(%s)", host)
	}
	for to, plain := range map[string]bool{
		"http://10.0.0.1/v2/": false, "http://169.254.169.254/latest": true, "http://[fe80::1]/x": true,
	} {
		req := require.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody))(t)
		guarded := guard{inner: http.DefaultTransport, plain: plain}
		resp, err := guarded.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		assert.Errorf(t, err, "a request for %s was sent", to)
	}
}

func TestListTags(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	img := imagetest.RandomImage(t, "amd64", 100)
	c := client(t)
	for _, tag := range []string{"535-debian12", "535.261.03-debian12", "latest"} {
		if _, _, err := c.Push(t.Context(), f.host()+"/team/driver:"+tag, img); err != nil {
			t.Fatal(err)
		}
	}
	require.Value(c.Attach(t.Context(), f.host()+"/team/driver", referrer(t, describe(t, img), "x"), signature(t, imagetest.Digest(t, img), "p", "s")))(t)
	got, err := c.ListTags(t.Context(), f.host()+"/team/driver")
	if diff := cmp.Diff([]string{"535-debian12", "535.261.03-debian12", "latest"}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	var remote *Error
	if _, err = c.ListTags(t.Context(), f.host()+"/team/other"); !errors.As(err, &remote) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for _, bad := range []string{"", f.host() + "/x:1", f.host() + "/x@sha256:" + strings.Repeat("0", 64), "UPPER/x"} {
		if _, err := c.ListTags(t.Context(), bad); err == nil || errors.As(err, &remote) || !strings.Contains(err.Error(), "REGISTRY/PATH") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	off := client(t, func(o *Options) { o.Offline = true })
	assert.ErrorIsf(t, assert.Err(off.ListTags(t.Context(), f.host()+"/team/driver")), fetch.ErrOffline, "offline")
}

// TestListTagsPages: the pages follow the distribution specification, with an address relative to the server.
func TestListTagsPages(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	failed := false
	f.failing(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return false
		}
		last := r.URL.Query().Get("last")
		if last == "b" && !failed {
			failed = true
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		next := map[string]string{"": "b", "b": "d"}[last]
		w.Header().Add("Link", `</elsewhere?n=2>; rel="prev"`)
		if next != "" {
			w.Header().Add("Link", fmt.Sprintf(`<%s?n=2&last=%s>; rel="next"`, r.URL.Path, next))
		}
		fmt.Fprintf(w, `{"name":"x","tags":%s}`, map[string]string{"": `["b","a"]`, "b": `["d","c","a"]`, "d": "null"}[last])
		return true
	})
	got, err := client(t).ListTags(t.Context(), f.host()+"/x")
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}
