package headers

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// a network without a way out drops packets, and each attempt then takes this long
const dialLimit = 10 * time.Second

// transport returns the transport to the image's repositories, with proxies, logins and
// certificates.
func (f *fetcher) transport(c conf) (*transport, error) {
	pool, err := f.authorities(c)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"acquire::https::sslcert", "acquire::http::proxy-auto-detect", "acquire::http::proxyautodetect"} {
		if c[name] != "" {
			f.Log.Warn("setting of apt.conf not supported, ignored", "setting", name)
		}
	}
	if c.off("acquire::https::verify-peer") || c.off("acquire::https::verify-host") {
		f.Log.Warn(
			"apt.conf switches the check of certificates off; here it stays on: mount the authority's certificate into /usr/local/share/ca-certificates",
		)
	}
	t := &transport{logins: f.logins()}
	proxies := proxies{conf: c, env: environment(f.Getenv), logins: t.logins}
	t.Transport = plainTransport(pool, proxies.choose)
	return t, nil
}

// plainTransport returns a transport without logins.
func plainTransport(
	pool *x509.CertPool,
	proxy func(*http.Request) (*url.URL, error),
) *http.Transport {
	return &http.Transport{
		Proxy:                 proxy,
		DialContext:           (&net.Dialer{Timeout: dialLimit, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   dialLimit,
		ResponseHeaderTimeout: time.Minute,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       time.Minute,
	}
}

// environment reads HTTP_PROXY, HTTPS_PROXY and NO_PROXY in both cases. Lower case has precedence,
// as in curl and apt.
func environment(getenv func(string) string) *httpproxy.Config {
	get := func(name string) string {
		if v := getenv(strings.ToLower(name)); v != "" {
			return v
		}
		return getenv(name)
	}
	return &httpproxy.Config{
		HTTPProxy:  get("HTTP_PROXY"),
		HTTPSProxy: get("HTTPS_PROXY"),
		NoProxy:    get("NO_PROXY"),
	}
}

// proxies chooses the proxy of a request.
type proxies struct {
	conf   conf
	env    *httpproxy.Config
	logins []login
}

// choose follows apt: apt.conf for this host, then its general setting, for https with http's
// settings as a fallback, then the environment. NO_PROXY always counts. "DIRECT", or "false" as
// many users write, means no proxy.
func (p proxies) choose(r *http.Request) (*url.URL, error) {
	text := p.setting(r.URL)
	switch {
	case text == "":
		return p.env.ProxyFunc()(r.URL)
	case strings.EqualFold(text, "DIRECT"), strings.EqualFold(text, "false"):
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		// The error does not have the text, because that may contain a password.
		return nil, fmt.Errorf(
			"the proxy in apt.conf for %s is not a URL such as \"http://host:port\"",
			r.URL.Host,
		)
	}
	// apt's name for what net/http calls socks5: the proxy resolves names
	if u.Scheme == "socks5h" {
		u.Scheme = "socks5"
	}
	if l, ok := find(p.logins, u); ok && u.User == nil {
		u.User = url.UserPassword(l.user, l.password)
	}
	only := httpproxy.Config{HTTPProxy: u.String(), HTTPSProxy: u.String(), NoProxy: p.env.NoProxy}
	if p.env.NoProxy == "" {
		return u, nil // also for addresses of this machine, which the environment's rules exempt
	}
	return only.ProxyFunc()(r.URL)
}

func (p proxies) setting(u *url.URL) string {
	schemes := []string{"http"}
	if u.Scheme == "https" {
		schemes = []string{"https", "http"}
	}
	for _, rest := range []string{"::proxy::" + strings.ToLower(u.Hostname()), "::proxy"} {
		for _, s := range schemes {
			if v := p.conf["acquire::"+s+rest]; v != "" {
				return v
			}
		}
	}
	return ""
}
