package kubernetes

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/driver-container/driver-container/ci/testkit/apitest"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const testNode = apitest.NodeName

// otherAuthority has issued no certificate here.
var otherAuthority = testcert.Authority("another authority").CertPEM()

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func start(t *testing.T) (*apitest.Server, *Client) {
	t.Helper()
	s := apitest.New(t)
	return s, New(s.URL, s.Folder)
}

func TestInCluster(t *testing.T) {
	t.Parallel()
	for env, want := range map[[2]string]string{
		{"10.96.0.1", "443"}: "https://10.96.0.1:443", {"fd00::1", "6443"}: "https://[fd00::1]:6443", {"", "443"}: "", {"10.96.0.1", ""}: "",
	} {
		c := InCluster(func(name string) string {
			return map[string]string{"KUBERNETES_SERVICE_HOST": env[0], "KUBERNETES_SERVICE_PORT": env[1]}[name]
		})
		assert.Equalf(t, want, c.server, "%q", env)
	}
	assert.Equal(t, "", New("", "/nowhere").Namespace())
	s, c := start(t)
	assert.Equalf(t, "gpu", c.Namespace(), "in %s", s.Folder)
}

// Callers can tell each kind of failure from the others.
func TestErrors(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for name, test := range map[string]struct {
		prepare func(t *testing.T, s *apitest.Server) *Client
		is      []error
		text    string
	}{
		"no server": {func(*testing.T, *apitest.Server) *Client { return New("", empty) }, []error{ErrNoCluster, fs.ErrNotExist}, "KUBERNETES_SERVICE_HOST"},
		"no token":  {func(_ *testing.T, s *apitest.Server) *Client { return New(s.URL, empty) }, []error{ErrNoCluster, fs.ErrNotExist}, "is its token mounted"},
		"no certificate": {func(t *testing.T, s *apitest.Server) *Client {
			testfile.Write(t, filepath.Join(s.Folder, "ca.crt"), "x")
			return New(s.URL, s.Folder)
		}, []error{ErrNoCluster}, "has no certificate"},
		"huge token": {func(t *testing.T, s *apitest.Server) *Client {
			testfile.Write(t, filepath.Join(s.Folder, "token"), strings.Repeat("x", maxAccount+1))
			return New(s.URL, s.Folder)
		}, []error{ErrNoCluster}, "larger than"},
		"other authority": {func(t *testing.T, s *apitest.Server) *Client { return New(s.URL, strangerOf(t, s)) },
			[]error{ErrUnreachable}, "certificate"},
		"old token": {func(_ *testing.T, s *apitest.Server) *Client {
			s.Do(func(st *apitest.State) { st.Token = "another" })
			return New(s.URL, s.Folder)
		}, []error{ErrForbidden, fs.ErrPermission}, "401 Unauthorized"},
		"forbidden": {func(_ *testing.T, s *apitest.Server) *Client {
			s.Do(func(st *apitest.State) { st.Denied = []string{"get nodes"} })
			return New(s.URL, s.Folder)
		}, []error{ErrForbidden, fs.ErrPermission}, `cannot get resource "nodes" in API group ""; give the service account this permission`},
		"down": {func(_ *testing.T, s *apitest.Server) *Client {
			s.Do(func(st *apitest.State) { st.Down = true })
			return New(s.URL, s.Folder)
		}, []error{ErrUnreachable}, "503"},
		"closed": {func(_ *testing.T, s *apitest.Server) *Client { return New("https://127.0.0.1:1", s.Folder) }, []error{ErrUnreachable}, "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := test.prepare(t, apitest.New(t)).Annotation(t.Context(), testNode, "x")
			for _, is := range test.is {
				assert.ErrorIs(t, err, is)
			}
			assert.ErrorContains(t, err, test.text)
		})
	}
	s, c := start(t)
	if _, err := c.Annotation(t.Context(), "node-2", "x"); !errors.Is(err, ErrNotFound) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another node: %v", err)
	}
	for _, err := range []error{assert.Err(c.Annotation(t.Context(), "", "x")), c.Annotate(t.Context(), "", "x", "y"), c.RemoveAnnotation(t.Context(), "", "x", "y"), c.SetCondition(t.Context(), "", noon, Condition{})} {
		assert.ErrorIs(t, err, ErrNoCluster)
		assert.ErrorContains(t, err, "NODE_NAME")
	}
	assert.ErrorIsf(t, assert.Err(c.Annotation(t.Context(), "../pods", "x")), ErrNotFound, "a name that leaves its place")
	s.Do(func(st *apitest.State) {
		if last := st.Requests[len(st.Requests)-1]; last != "GET /api/v1/nodes/../pods" { // one element, escaped, in the request
			t.Errorf("%q", last)
		}
	})
}

// strangerOf returns a service account whose authority did not issue the server's certificate. All servers of
// apitest have the same one, so another is needed.
func strangerOf(t *testing.T, s *apitest.Server) string {
	t.Helper()
	token := testfile.Read(t, filepath.Join(s.Folder, "token"))
	return testfile.Tree(t, t.TempDir(), map[string]string{"token": token, "ca.crt": otherAuthority})
}

// The kubelet replaces the token, and sometimes the authorities, while the pod runs.
func TestRotation(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	ask := func() error { return c.Annotate(t.Context(), testNode, "x", "y") }
	require.NoError(t, ask())
	s.SetToken(t, "token-2")
	assert.NoErrorf(t, ask(), "new token")
	ca := filepath.Join(s.Folder, "ca.crt")
	good := testfile.Read(t, ca)
	testfile.Write(t, ca, otherAuthority)
	assert.ErrorIsf(t, ask(), ErrUnreachable, "other authorities")
	testfile.Write(t, ca, otherAuthority+good)
	assert.NoErrorf(t, ask(), "both authorities")
}

// A server that answers nonsense, too much or never, or redirects.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	real1, _ := start(t)
	hang := make(chan struct{})
	var elsewhere int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }, "302"},
		"endless":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2*maxAnswer)) }, "more than"},
		"nonsense": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\x1b[31m")) }, "not what was asked for"},
		"page": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("<html>\x1b[31m\n" + strings.Repeat("x", 9000)))
		}, "502 Bad Gateway: <html>?[31m xxx"},
		"silent": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewTLSServer(test.handler)
			defer web.Close()
			c := New(web.URL, real1.Folder) // the certificates of httptest are all the same
			if name == "silent" {           // the others answer, however slow the machine is
				c.Wait = 200 * time.Millisecond
			}
			_, err := c.Annotation(t.Context(), testNode, "x")
			if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	close(hang)
	assert.Equalf(t, 0, elsewhere, "the token was carried elsewhere")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIsf(t, New(real1.URL, real1.Folder).Annotate(ctx, testNode, "x", "y"), context.Canceled, "cancelled")
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"kind":"Status","message":"nodes \"n\" is forbidden"}`))
	f.Add([]byte("<html>\x1b[2J"))
	f.Add([]byte{0xff, 0xfe})
	f.Fuzz(func(t *testing.T, data []byte) {
		text := message(data)
		if len(text) > 512 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x1b\x00") {
			t.Errorf("%q", text)
		}
	})
}

// The server's wish is read within bounds, and also holds for reports.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 0, "10": 10 * time.Second, "0": 0, "-1": 0, "soon": 0, "1e3": 0,
		"4294967295": time.Hour, "99999999999999999999": 0, "Sun, 29 Nov 2026 12:00:00 GMT": 0,
	} {
		header := http.Header{"Retry-After": {text}}
		assert.Equalf(t, want, RetryAfter(&StatusError{RetryAfter: parseRetryAfter(header)}), "%q", text)
	}
	assert.Equal(t, 0, RetryAfter(errors.New("x")))
	assert.Equal(t, 0, RetryAfter(nil))

	reports := sender{on: true, log: logtest.New(t)}
	reports.result(t.Context(), noon, &StatusError{Code: http.StatusTooManyRequests, RetryAfter: time.Minute})
	assert.Equal(t, false, reports.ready(noon.Add(59*time.Second)))
	assert.Equal(t, true, reports.ready(noon.Add(time.Minute)))
}
