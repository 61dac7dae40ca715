package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const maxRedirects = 10

// newTransport returns the transport below authentication: proxies of the environment, our certificates,
// deadlines.
func newTransport(o Options) (*http.Transport, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          64,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       time.Minute,
		TLSHandshakeTimeout:   30 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // blobs are counted and hashed as they are
	}
	// The user requests it with --insecure-registry.
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.Insecure} //nolint:gosec // see above
	if o.CAFile == "" {
		return t, nil
	}
	pem, err := readCA(o.CAFile)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without certificates: only ours count
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the CA certificates: %s holds no PEM certificate", o.CAFile)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

// handshaking marks requests of the authentication handshake, whose answers only go-containerregistry reads.
type handshaking struct{}

// guard is a transport between go-containerregistry's authentication and the network. It prevents plain HTTP
// (which the library also tries for private addresses). During the handshake it turns answers that are worth
// a further attempt into errors that keep the server's Retry-After.
type guard struct {
	inner http.RoundTripper
	plain bool
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.plain {
		return nil, errPlain
	}
	resp, err := g.inner.RoundTrip(req)
	if err != nil || req.Context().Value(handshaking{}) == nil {
		return resp, err
	}
	if code := resp.StatusCode; code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout {
		return resp, nil
	}
	return nil, errors.Join(check(resp), resp.Body.Close())
}

// session is an authenticated connection to one repository.
type session struct {
	repo  name.Repository
	host  string
	ready sync.Mutex // held during the handshake: several transfers that begin together log in once
	http  *http.Client

	failed error // of the last handshake
	when   time.Time
}

// session returns the session for a repository and logs in if there is none. pull lists further repositories
// of the same registry that must be readable (sources of mounts).
func (c *Client) session(ctx context.Context, e endpoint, attempts int, scope string, pull ...string) (*session, error) {
	scopes := []string{e.repo.Scope(scope)}
	for _, r := range slices.Sorted(slices.Values(pull)) {
		scopes = append(scopes, e.repo.Registry.Repo(r).Scope(transport.PullScope))
	}
	key := e.repo.Name() + " " + strings.Join(scopes, " ")
	c.mu.Lock()
	s := c.sessions[key]
	if s == nil {
		s = &session{repo: e.repo, host: e.repo.RegistryStr()}
		c.sessions[key] = s
	}
	c.mu.Unlock()

	began := time.Now()
	s.ready.Lock()
	defer s.ready.Unlock()
	if s.http != nil {
		return s, nil
	}
	if s.failed != nil && s.when.After(began) {
		// The error of the transfer that held the lock: without this, each waiting transfer would wait for a dead
		// host in turn.
		return nil, s.failed
	}
	err := c.try(ctx, attempts, c.limits.request, func(ctx context.Context) error {
		rt, err := c.login(ctx, e, scopes)
		if err == nil {
			s.http = &http.Client{Transport: rt, CheckRedirect: checkRedirect}
		}
		return err
	})
	if err == nil {
		return s, nil
	}
	if ctx.Err() == nil {
		s.failed, s.when = err, time.Now()
	}
	return nil, err
}

// login does the handshake. A token server may refuse the whole request because of one source of mounts;
// login then asks for the repository alone, and the blobs are uploaded instead of mounted.
func (c *Client) login(ctx context.Context, e endpoint, scopes []string) (http.RoundTripper, error) {
	auth, err := c.credentials(ctx, e.repo)
	if err != nil {
		return nil, err
	}
	plain := e.plain || c.opts.Insecure || isLoopback(e.repo.RegistryStr())
	g := &guard{inner: c.http, plain: plain}
	hctx := context.WithValue(ctx, handshaking{}, true)
	rt, err := transport.NewWithContext(hctx, e.repo.Registry, auth, g, scopes)
	if code := status(err); len(scopes) > 1 && (code == http.StatusUnauthorized || code == http.StatusForbidden) {
		rt, err = transport.NewWithContext(hctx, e.repo.Registry, auth, g, scopes[:1])
	}
	if errors.Is(err, http.ErrSchemeMismatch) && !plain {
		err = &finalError{err}
	}
	return rt, err
}

// credentials asks the keychain, which may start a helper program that never answers.
func (c *Client) credentials(ctx context.Context, repo name.Repository) (authn.Authenticator, error) {
	type answer struct {
		auth authn.Authenticator
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		auth, err := authn.Resolve(ctx, c.keys, repo)
		got <- answer{auth, err}
	}()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("ask for the credentials of %s: %w", repo.RegistryStr(), context.Cause(ctx))
	case a := <-got:
		if a.err != nil {
			return nil, &finalError{fmt.Errorf("read the credentials for %s: %w", repo.RegistryStr(), a.err)}
		}
		return a.auth, nil
	}
}

// checkRedirect lets registries redirect to their storage, but not to addresses that only this machine's
// cloud serves.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return &finalError{fmt.Errorf("it redirected more than %d times", maxRedirects)}
	}
	if ip, err := netip.ParseAddr(req.URL.Hostname()); err == nil && ip.Unmap().IsLinkLocalUnicast() {
		return &finalError{fmt.Errorf("it redirected to the link-local address %s: refused", ip)}
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
