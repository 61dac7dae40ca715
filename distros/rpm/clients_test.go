package rpm

import (
	"crypto/tls"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// TestSubscriptionFiles: redhat.repo of a machine may name the files of an older pair, with which a repository is
// reached that requires a client certificate; without any pair the error says what to mount.
func TestSubscriptionFiles(t *testing.T) {
	t.Parallel()
	r := newRepository(t, basics()...)
	r.publish(t)
	ca := testcert.Authority("entitlement")
	client := ca.Client("node")
	cert, key := client.CertPEM(), client.KeyPEM()
	server := httptest.NewUnstartedServer(r)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	r.url = server.URL + "/os"
	repo := "[rhel]\nname=x\nbaseurl=" + r.url + "\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/KEY\nsslcacert=/etc/rhsm/ca/ca.pem\n" +
		"sslclientcert=/etc/pki/entitlement/1.pem\nsslclientkey=/etc/pki/entitlement/1-key.pem\n"
	o := r.options(t)
	o.Root = testfile.FS(map[string]string{"etc/pki/rpm-gpg/KEY": repotest.Public(t, testKeys().good), "etc/os-release": "ID=\"rhel\"\nVERSION_ID=9.4\n"})
	o.Sources = require.Value(repoconf.WithSubscription(nil, o.Root, testfile.FS(map[string]string{"run/secrets/redhat.repo": repo}), nil))(t)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // the text of the error
	}{
		{"another pair", map[string]string{"run/secrets/etc-pki-entitlement/2.pem": cert, "run/secrets/etc-pki-entitlement/2-key.pem": key}, ""},
		{"on the host", map[string]string{"etc/pki/entitlement/1.pem": cert, "etc/pki/entitlement/1-key.pem": key}, ""},
		{"two pairs", map[string]string{
			"run/secrets/etc-pki-entitlement/2.pem": cert, "run/secrets/etc-pki-entitlement/2-key.pem": key, "run/secrets/etc-pki-entitlement/3-key.pem": key,
		}, "run/secrets/etc-pki-entitlement"},
		{"none", nil, "mount /etc/pki/entitlement"},
		{"not a pair", map[string]string{"etc/pki/entitlement/1.pem": cert, "etc/pki/entitlement/1-key.pem": "hello"}, "sslclientcert"},
	} {
		o := o
		files := map[string]string{"run/secrets/rhsm/ca/ca.pem": testcert.PEM("CERTIFICATE", server.Certificate().Raw)}
		maps.Copy(files, c.files)
		o.Machine = testfile.FS(files)
		_, err := OpenReleases(t.Context(), o)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, distros.ErrSources) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: OpenReleases = %v; want %q", c.name, err, c.want)
		}
		clients := require.Value(OpenClients(o))(t)
		if c.want == "" { // packages may lie beside the folder of a source
			beside := require.Value(clients.For(strings.TrimSuffix(r.url, "/os") + "/blobstore/x"))(t)
			other := require.Value(clients.For("https://example.com/x"))(t)
			assert.Equalf(t, true, beside != o.Fetch && other == o.Fetch, "%s: For", c.name)
			continue
		}
		assert.ErrorContainsf(t, assert.Err(clients.For(r.url+"/x")), c.want, "%s: For", c.name)
	}
}

// TestSecrets checks that user, password and query reach the host of the source, and no other host, no URL
// and no message.
func TestSecrets(t *testing.T) {
	t.Parallel()
	r, o := published(t)
	var strange []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, _, ok := req.BasicAuth(); ok || req.URL.RawQuery != "" {
			strange = append(strange, req.URL.String())
		}
		r.ServeHTTP(w, req)
	}))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if user, password, _ := req.BasicAuth(); user != "me" || password != "s3cret" || req.URL.RawQuery != "t0ken" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		if strings.Contains(req.URL.Path, "primary") {
			http.Redirect(w, req, other.URL+req.URL.Path, http.StatusFound)
			return
		}
		r.ServeHTTP(w, req)
	}))
	defer server.Close()
	u := require.Value(url.Parse(server.URL + "/os?t0ken"))(t)
	u.User = url.UserPassword("me", "s3cret")
	o.Sources[0].BaseURLs = []string{u.String()}
	x := require.Value(openIndex(t.Context(), o))(t)
	checkBasics(t, x, server.URL+"/os")
	assert.Equalf(t, 0, len(strange), "secrets went to another host: %q", strange)
	r.Files["/os/repodata/repomd.xml.asc"] = nil
	u.User = url.UserPassword("me", "s3crets")
	o.Sources[0].BaseURLs = []string{u.String()}
	if _, err := openIndex(t.Context(), o); err == nil || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "t0ken") {
		t.Errorf("Open(wrong password) = %v", err)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	r, o := published(t)
	used := ""
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		used = req.Header.Get("Proxy-Authorization")
		req.URL.Path = strings.TrimPrefix(req.URL.Path, "/far")
		r.ServeHTTP(w, req)
	}))
	defer proxy.Close()
	o.Sources[0].BaseURLs = []string{"http://repository.example.com/far/os"}
	o.Sources[0].Proxy = strings.Replace(proxy.URL, "//", "//me:pw@", 1)
	x := require.Value(openIndex(t.Context(), o))(t)
	checkBasics(t, x, "http://repository.example.com/far/os")
	assert.Equalf(t, true, strings.HasPrefix(used, "Basic "), "the proxy was told %q", used)
	o.Sources[0].Proxy, o.Sources[0].BaseURLs = "none", []string{r.url}
	assert.NoError(t, assert.Err(openIndex(t.Context(), o)))
	o.Fetch.HTTP = &http.Client{Transport: failing{}}
	assert.ErrorIsf(t, assert.Err(openIndex(t.Context(), o)), distros.ErrSources, "Open(proxy with a foreign transport)")
}

func TestNoVerify(t *testing.T) {
	t.Parallel()
	r, o := published(t)
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	o.Sources[0].BaseURLs = []string{server.URL + "/os"}
	if _, err := openIndex(t.Context(), o); !errors.Is(err, fetch.ErrUnreachable) && err == nil {
		t.Errorf("Open(unknown authority) = %v", err)
	}
	o.Sources[0].SSL.NoVerify = true
	assert.NoError(t, assert.Err(openIndex(t.Context(), o)))
	o.Sources[0].SSL = repoconf.SSL{CA: "/etc/ca.pem"}
	o.Root = testfile.FS(map[string]string{"etc/ca.pem": "no certificate"})
	assert.ErrorIsf(t, assert.Err(openIndex(t.Context(), o)), distros.ErrSources, "Open(no CA in PEM)")
}

// TestOptionsKeyring checks that the keys of the options, of the base and of its sources count, and that the others
// are notes.
func TestOptionsKeyring(t *testing.T) {
	t.Parallel()
	k := testKeys()
	o := Options{
		Arch: "x86_64", Root: testfile.FS(map[string]string{
			"usr/share/keys/a": repotest.Public(t, k.good), "etc/pki/rpm-gpg/B": repotest.Public(t, k.expired), "usr/lib/rpm/gnupg/keys/bad.asc": "hello", "usr/lib/rpm/gnupg/keys/empty.asc": "",
		}), Keyrings: [][]byte{[]byte(repotest.Public(t, k.expired))},
		Sources: []repoconf.Source{
			{ID: "a", BaseURLs: []string{"http://x"}, GPGCheck: true, GPGKeys: []string{"file:///usr/share/keys/a", "https://example.com/x"}},
			{ID: "b", BaseURLs: []string{"http://x"}, Key: repotest.Public(t, k.stranger)},
		},
	}
	ring, err := o.Keyring()
	want := []string{repotest.Fingerprint(k.good), repotest.Fingerprint(k.stranger), repotest.Fingerprint(k.expired)}
	slices.Sort(want)
	if got := ring.Fingerprints(); err != nil || !slices.Equal(got, want) || len(ring.Notes) != 3 {
		t.Errorf("Keyring = %q, %q, %v; want %q", got, ring.Notes, err, want)
	}
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }
