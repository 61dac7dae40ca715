package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/fetch"
)

const (
	maxRedirects   = 10
	maxAuthorities = 8 << 20 // bytes of a file of authorities; those of a distribution have 250 KB
)

// newTransport returns the transport below authentication, with our certificates.
func newTransport(o Options) (*http.Transport, error) {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default HTTP transport has been replaced")
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost, t.DisableCompression = 16, true // blobs are counted and hashed as they are
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
var errPlain = errors.New("plain HTTP is allowed only for loopback addresses and with --insecure-registry")

// guard is a transport that prevents plain HTTP, unless it is allowed, and keeps the pause that servers request: oras-go
// does not tell that of a server of tokens.
type guard struct {
	inner http.RoundTripper
	plain bool
	pause *atomic.Int64
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.plain {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper has to
		}
		return nil, errPlain
	}
	resp, err := g.inner.RoundTrip(req)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		g.pause.Store(int64(fetch.RetryAfter(resp)))
	}
	return resp, err
}

// checkRedirect lets registries redirect to their storage, but not to addresses that only this machine's
// cloud serves.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return final(fmt.Errorf("it redirected more than %d times", maxRedirects))
	}
	if ip, err := netip.ParseAddr(req.URL.Hostname()); err == nil && ip.Unmap().IsLinkLocalUnicast() {
		return final(fmt.Errorf("it redirected to the link-local address %s: refused", ip))
	}
	return nil
}

func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.IsLoopback()
}
