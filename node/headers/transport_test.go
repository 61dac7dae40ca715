package headers

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestProxies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, conf, env, logins, url, want string
	}{
		{name: "none", url: "http://a.example/"},
		{name: "apt", conf: `Acquire::http::Proxy "http://p:1";`, url: "http://a.example/", want: "http://p:1"},
		{name: "https falls back to http's", conf: `Acquire::http::Proxy "http://p:1";`, url: "https://a.example/", want: "http://p:1"},
		{name: "https has its own", conf: `Acquire::http::Proxy "http://p:1"; Acquire::https::Proxy "http://q:1";`, url: "https://a.example/", want: "http://q:1"},
		{name: "http does not take https's", conf: `Acquire::https::Proxy "http://q:1";`, url: "http://a.example/"},
		{name: "of a host", conf: `Acquire::http::Proxy "http://p:1"; Acquire::http::Proxy::A.example "http://q:1";`, url: "http://a.example:8080/", want: "http://q:1"},
		{name: "of another host", conf: `Acquire::http::Proxy "http://p:1"; Acquire::http::Proxy::b.example "http://q:1";`, url: "http://a.example/", want: "http://p:1"},
		{name: "direct to a host", conf: `Acquire::http::Proxy "http://p:1"; Acquire::http::Proxy::a.example "DIRECT";`, url: "https://a.example/"},
		{name: "false", conf: `Acquire::http::Proxy "false";`, env: "HTTP_PROXY=http://e:1", url: "http://a.example/"},
		{name: "apt before the environment", conf: `Acquire::http::Proxy "http://p:1";`, env: "HTTP_PROXY=http://e:1", url: "http://a.example/", want: "http://p:1"},
		{name: "empty is not set", conf: `Acquire::http::Proxy "";`, env: "HTTP_PROXY=http://e:1", url: "http://a.example/", want: "http://e:1"},
		{name: "environment", env: "HTTP_PROXY=http://e:1", url: "http://a.example/", want: "http://e:1"},
		{name: "environment, small", env: "http_proxy=http://e:1", url: "http://a.example/", want: "http://e:1"},
		{name: "environment, https", env: "HTTPS_PROXY=http://e:2 http_proxy=http://e:1", url: "https://a.example/", want: "http://e:2"},
		{name: "small before large", env: "HTTP_PROXY=http://e:1 http_proxy=http://e:2", url: "http://a.example/", want: "http://e:2"},
		{name: "no proxy", env: "HTTP_PROXY=http://e:1 NO_PROXY=.example", url: "http://a.example/"},
		{name: "no proxy, network", env: "HTTP_PROXY=http://e:1 no_proxy=10.0.0.0/8", url: "http://10.1.2.3/"},
		{name: "no proxy for apt's", conf: `Acquire::http::Proxy "http://p:1";`, env: "no_proxy=b,a.example", url: "http://a.example/"},
		{name: "no proxy for others", conf: `Acquire::http::Proxy "http://p:1";`, env: "no_proxy=b", url: "http://a.example/", want: "http://p:1"},
		{name: "login in the URL", conf: `Acquire::http::Proxy "http://u:s@p:1";`, url: "http://a.example/", want: "http://u:s@p:1"},
		{name: "login of auth.conf", conf: `Acquire::http::Proxy "http://p:1";`, logins: "machine http://p login u password s", url: "http://a.example/", want: "http://u:s@p:1"},
		{name: "socks", conf: `Acquire::http::Proxy "socks5h://p:1";`, url: "http://a.example/", want: "socks5://p:1"},
		{name: "nonsense", conf: `Acquire::http::Proxy "proxy.secret:3128";`, url: "http://a.example/", want: "error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := parseDump(strings.ReplaceAll(test.conf, "; ", ";\n"))
			logins := require.Value(parseLogins(test.logins))(t)
			p := proxies{conf: c, logins: logins, env: environment(func(name string) string {
				for pair := range strings.FieldsSeq(test.env) {
					if v, ok := strings.CutPrefix(pair, name+"="); ok {
						return v
					}
				}
				return ""
			})}
			u := require.Value(url.Parse(test.url))(t)
			got, err := p.choose(&http.Request{URL: u})
			if test.want == "error" {
				if err == nil || strings.Contains(err.Error(), "secret") {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			text := ""
			if got != nil {
				text = got.String()
			}
			assert.NoError(t, err)
			assert.Equal(t, test.want, text)
		})
	}
}

// A repository under a name that only the proxy can resolve.
func TestFetchThroughProxy(t *testing.T) {
	t.Parallel()
	a := newArchive(t, debian(testRelease, "1")...)
	a.Publish()
	for name, prepare := range map[string]func(i *image, proxy string){
		"apt.conf": func(i *image, proxy string) {
			i.write("etc/apt/apt.conf.d/80proxy", "Acquire::http::Proxy \""+proxy+"\";")
		},
		"environment": func(i *image, proxy string) { i.env["HTTP_PROXY"] = proxy },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int64
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Host != "archive.invalid" || r.Header.Get("Proxy-Authorization") != "Basic dTpzZWNyZXQ=" {
					http.Error(w, "no", http.StatusForbidden)
					return
				}
				seen.Add(1)
				a.ServeHTTP(w, r)
			}))
			defer proxy.Close()
			i := newImage(t, "http://archive.invalid")
			prepare(i, strings.Replace(proxy.URL, "http://", "http://u:secret@", 1))
			assert.Equal(t, 3, len(require.Value(i.fetch())(t)))
			if seen.Load() == 0 || strings.Contains(i.said.String(), "secret") {
				t.Errorf("%d requests; it said %s", seen.Load(), i.said.String())
			}
		})
	}
}

// A server whose certificate is trusted only because of a mounted file.
func TestFetchWithMountedCertificate(t *testing.T) {
	t.Parallel()
	a := newArchive(t, debian(testRelease, "1")...)
	a.Publish()
	a.server.StartTLS()
	cert := a.server.Certificate().Raw
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	for name, prepare := range map[string]func(i *image){
		"mounted":         func(i *image) { i.write("usr/local/share/ca-certificates/corp/ca.crt", text) },
		"mounted, binary": func(i *image) { i.write("usr/local/share/ca-certificates/ca.crt", string(cert)) },
		"system":          func(i *image) { i.write("etc/ssl/certs/ca-certificates.crt", text) },
		"apt": func(i *image) {
			i.write("opt/ca.pem", text)
			i.write("etc/apt/apt.conf.d/1", `Acquire::https::CaInfo "/opt/ca.pem";`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newImage(t, a.server.URL)
			prepare(i)
			assert.Equal(t, 3, len(require.Value(i.fetch())(t)))
			assert.Equalf(t, false, strings.Contains(i.said.String(), "warning"), "it said:\n%s", i.said.String())
		})
	}
	i := newImage(t, a.server.URL)
	i.write("usr/local/share/ca-certificates/README", "no certificate\n")
	i.write("etc/apt/apt.conf", `Acquire::https::Verify-Peer "false";`)
	_, err := i.fetch()
	require.ErrorAs[*UnavailableError](t, err)
	assert.ErrorContains(t, err, "certificate")
	for _, part := range []string{"certificates not used path=usr/local/share/ca-certificates/README: it holds no certificate", "here it stays on: mount the authority's certificate"} {
		assert.Contains(t, i.said.String(), part)
	}
}

// A login is sent only to its server and never logged.
func TestFetchWithLogin(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	pool := newArchive(t, debian(testRelease, "1")...)
	pool.gate = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			elsewhere.Add(1)
		}
		return true
	}
	pool.start()
	a := newArchive(t, debian(testRelease, "1")...)
	a.gate = func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user != "apt" || password != "s3cret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return false
		}
		if strings.Contains(r.URL.Path, "/pool/") {
			http.Redirect(w, r, strings.Replace(pool.server.URL, "127.0.0.1", "localhost", 1)+r.URL.Path, http.StatusFound)
			return false
		}
		return true
	}
	a.start()
	i := newImage(t, a.server.URL)
	i.write("etc/apt/auth.conf.d/90repo.conf", "machine http://127.0.0.1/debian login apt password s3cret\n")
	assert.Equal(t, 3, len(require.Value(i.fetch())(t)))
	if elsewhere.Load() > 0 || pool.count("/debian/pool/linux-kbuild-6.1_1_amd64.deb") == 0 {
		t.Errorf("the login went to another server %d times", elsewhere.Load())
	}

	// The login is in the URL of the source, and wrong, so that there are errors to look at.
	i = newImage(t, strings.Replace(a.server.URL, "http://", "http://apt:s3cret-but-wrong@", 1))
	_, err := i.fetch()
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error()+i.said.String(), "s3cret") {
		t.Errorf("%v; it said %s", err, i.said.String())
	}
}

func TestAuthorities(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	root := fstest.MapFS{}
	// As the kubelet mounts a ConfigMap; the name beside the hidden folder leads into it.
	root["usr/local/share/ca-certificates/..2026/ca.crt"] = &fstest.MapFile{Data: []byte("not read")}
	root["usr/local/share/ca-certificates/ca.crt"] = &fstest.MapFile{Data: bytes.Join([][]byte{text, text}, nil)}
	root["etc/ssl/certs/0123abcd.0"] = &fstest.MapFile{Data: []byte("not read")}
	var log logtest.Log
	f := fetcher{Options: Options{Root: "/image", Log: log.Logger()}, files: root}
	pool, err := f.authorities(conf{})
	want := x509.NewCertPool()
	want.AddCert(server.Certificate())
	if err != nil || log.String() != "" || !pool.Equal(want) {
		t.Error(err, log.String())
	}
	f.Root = "/"
	own, err := f.authorities(conf{})
	if err != nil || own == nil {
		t.Error(err)
	}
	for n := range maxCertFiles {
		root[fmt.Sprintf("etc/pki/trust/anchors/%d.crt", n)] = &fstest.MapFile{}
	}
	require.Value(f.authorities(conf{}))(t)
	assert.Contains(t, log.String(), "there are too many files most=2000")
}
