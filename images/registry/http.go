package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
)

// maxAuthorities bounds a file of authorities, in bytes; those of a distribution have 250 KB.
const maxAuthorities = 8 << 20

// newTransport returns the transport below authentication, with our certificates.
func newTransport(o Options) (*http.Transport, error) {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default HTTP transport has been replaced")
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = 16
	t.DisableCompression = true // blobs are counted and hashed as they are
	// The user requests it with --insecure-registry.
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure} //nolint:gosec // see above
	if o.CAFile == "" {
		return t, nil
	}
	pool, err := Authorities(o.CAFile)
	t.TLSClientConfig.RootCAs = pool
	return t, err
}

// Authorities are the certificate authorities of the system and those of a file.
func Authorities(file string) (*x509.CertPool, error) {
	pem, err := bounded.File(file, maxAuthorities)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificates: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without certificates: only ours count
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the CA certificates: %s holds no PEM certificate", file)
	}
	return pool, nil
}

// errPlain refuses to send credentials and content unencrypted.
var errPlain = errors.New(
	"plain HTTP is allowed only for loopback addresses and with --insecure-registry",
)

// guard is the transport below logging in. It refuses plain HTTP, unless that is allowed, and
// addresses that only this machine's cloud serves. It keeps the pause that servers ask for, and cuts
// what they say when they refuse: go-containerregistry forgets the status of a long answer.
type guard struct {
	inner    http.RoundTripper
	registry string // host[:port]
	plain    bool
	pause    atomic.Int64 // that a server asked for last, in nanoseconds
}

// RoundTrip sends a request.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	fresh, err := g.prepare(req)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper has to
		}
		return nil, err
	}
	resp, err := g.inner.RoundTrip(fresh)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		g.pause.Store(int64(fetch.RetryAfter(resp)))
		resp.Body = complaint{io.LimitReader(resp.Body, maxComplaint), resp.Body}
	}
	return resp, nil
}

// complaint is the beginning of an answer that refuses.
type complaint struct {
	io.Reader
	io.Closer
}

// prepare refuses addresses. It opens a blob again, where a request is repeated with a new token.
func (g *guard) prepare(req *http.Request) (*http.Request, error) {
	if req.URL.Scheme != "https" && !g.plain {
		return nil, errPlain
	}
	ip, _ := netip.ParseAddr(req.URL.Hostname()) // a name is no link-local address
	if ip.Unmap().IsLinkLocalUnicast() && req.URL.Host != g.registry {
		return nil, final(fmt.Errorf("it redirected to the link-local address %s: refused", ip))
	}
	body, ok := req.Body.(*uploadBody)
	if !ok || !body.used.Load() || req.GetBody == nil {
		return req, nil
	}
	fresh, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	repeated := req.Clone(req.Context())
	repeated.Body = fresh
	return repeated, nil
}

func isLoopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	ip, _ := netip.ParseAddr(name) // that of a name is the zero value, which is no loopback
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || ip.IsLoopback()
}
