package registry

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
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
		r, err := parseReference(in, false)
		if err != nil || r.canonical() != want || strings.Contains(in, "@") != (r.digest.Hex != "") {
			t.Errorf("parseReference(%s) = %s %s, %v; want %s", in, r.canonical(), r.digest, err, want)
		}
	}
	for _, in := range []string{"", "UPPER", "a b", "x@sha256:1", "x@md5:" + strings.Repeat("a", 32), "x:1:2@" + digest} {
		if r, err := parseReference(in, false); err == nil {
			t.Errorf("parseReference(%q) = %s; want an error", in, r.canonical())
		}
	}
}

func TestMirrorNames(t *testing.T) {
	t.Parallel()
	c := client(t, func(o *Options) {
		o.Mirrors = map[string][]string{"docker.io": {"mirror.example:5000/hub/", "http://10.0.0.1", "https://plainname"}}
	})
	r := require.Value(parseReference("debian:12", false))(t)
	var got []string
	for _, e := range c.endpoints(r.repo) {
		got = append(got, fmt.Sprint(e.repo.Scheme(), " ", e.repo.Name(), " ", e.plain))
	}
	want := []string{
		"https mirror.example:5000/hub/library/debian false", "http 10.0.0.1/library/debian true",
		"https plainname/library/debian false", "https index.docker.io/library/debian false",
	}
	assert.Same(t, want, got)
	for _, bad := range []string{"", "a b", "http://", "mirror.example/UPPER"} {
		if _, err := New(Options{Store: c.opts.Store, Mirrors: map[string][]string{"docker.io": {bad}}}); err == nil {
			t.Errorf("mirror %q was accepted", bad)
		}
	}
	assert.Errorf(t, assert.Err(New(Options{})), "a client without a store was accepted")
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
	req := require.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://10.0.0.1/v2/", http.NoBody))(t)
	resp, err := (&guard{inner: http.DefaultTransport}).RoundTrip(req)
	assert.ErrorIsf(t, err, errPlain, "plain HTTP to a private address: %v", resp)
	if resp != nil {
		_ = resp.Body.Close()
	}
	for _, to := range []string{"http://169.254.169.254/latest", "http://[fe80::1]/x"} {
		req := require.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody))(t)
		assert.Errorf(t, checkRedirect(req, nil), "a redirect to %s was followed", to)
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	long := &transport.Error{StatusCode: 502, Errors: []transport.Diagnostic{{Code: "X", Message: strings.Repeat("m", 1000), Detail: secret}}}
	for want, err := range map[string]error{
		"502 Bad Gateway (X mmm":           long,
		"refuses blobs of this size":       &StatusError{Code: 413},
		"do not allow to push to":          &StatusError{Code: 403},
		"does not take images there":       &StatusError{Code: 404},
		"--insecure-registry":              http.ErrSchemeMismatch,
		"its token server sent no token":   errors.New("no token in bearer response:\n{" + secret + "}"),
		"blob x: it answered 500 Internal": &itemError{"blob x", &StatusError{Code: 500}},
	} {
		got := failure(t.Context(), "push", "host/x:1", "host", err)
		text := got.Error()
		if !strings.HasPrefix(text, "push host/x:1: registry host: ") || !strings.Contains(text, want) {
			t.Errorf("%q; want %q", text, want)
		}
		if strings.Contains(text, secret) || len(text) > 500 || !errors.Is(got, err) {
			t.Errorf("%q tells a secret, is too long, or hides its cause", text)
		}
	}
	if failure(t.Context(), "push", "x", "y", nil) != nil {
		t.Error("no error became one")
	}
}

// The test changes the environment, so it cannot run in parallel with others.
func TestKeychain(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	write := func(path string, auths map[string]string) string {
		path = filepath.Join(home, path)
		var list []string
		for host, user := range auths {
			list = append(list, fmt.Sprintf("%q:{\"auth\":%q}", host, base64.StdEncoding.EncodeToString([]byte(user+":"+secret))))
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(`{"auths":{`+strings.Join(list, ",")+`}}`), 0o600))
		return path
	}
	user := func(ref string) string {
		t.Helper()
		repo := require.Value(name.NewRepository(ref))(t)
		a := require.Value(authn.Resolve(t.Context(), NewKeychain(), repo))(t)
		cfg := require.Value(authn.Authorization(t.Context(), a))(t)
		return cfg.Username
	}
	check := func(ref, want string) {
		t.Helper()
		assert.Equalf(t, want, user(ref), "user for %s is", ref)
	}
	check("a.example/x", "")
	write(".config/containers/auth.json", map[string]string{"a.example": "config", "b.example/team": "team", "docker.io": "hub"})
	check("a.example/x", "config")
	check("b.example/team/x", "team")
	check("b.example/other/x", "")
	check("debian", "hub")
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(home, "run"))
	write("run/containers/auth.json", map[string]string{"a.example": "run"})
	check("a.example/x", "run")
	check("b.example/team/x", "team")
	write(".docker/config.json", map[string]string{"c.example": "docker"})
	check("c.example/x", "docker")
	write(".docker/config.json", map[string]string{"https://d.example/v1/": "old"})
	check("d.example/x", "old")
	helper := "#!/bin/sh\nread -r host\necho '{\"Username\":\"helped\",\"Secret\":\"s\"}'\n"
	require.NoError(t, os.WriteFile(filepath.Join(home, "docker-credential-test"), []byte(helper), 0o700))
	t.Setenv("PATH", home+":"+os.Getenv("PATH"))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".docker/config.json"), []byte(`{"credHelpers":{"e.example":"test"}}`), 0o600))
	check("e.example/x", "helped")
	check("a.example/x", "run") // also where Docker has a configuration
	file := write("explicit.json", map[string]string{"c.example": "explicit"})
	t.Setenv("REGISTRY_AUTH_FILE", file)
	check("c.example/x", "explicit")
	check("a.example/x", "run")

	require.NoError(t, os.WriteFile(file, []byte(`{"auths":{"c.example":{"auth":"`+secret), 0o600))
	repo := require.Value(name.NewRepository("c.example/x"))(t)
	if _, err := authn.Resolve(t.Context(), NewKeychain(), repo); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a broken file: %v; want an error without its content", err)
	}
}

func TestReceived(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{"0-99": 100, "bytes=0-1": 2, "0-0": -1, "": -1, "5-9": -1, "0-x": -1, "0--5": -1, "0-9223372036854775807": -1} {
		n, ok := received(in)
		if !ok {
			n = -1
		}
		assert.Equalf(t, want, n, "received(%q)", in)
	}
}
