package headers

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const dialLimit = 10 * time.Second // a network without a way out drops packets, and each attempt then takes this long

// newTransport returns the transport to the image's repositories, with proxies, logins and certificates.
func newTransport(root fs.FS, own bool, c conf, getenv func(string) string, log *slog.Logger) (*transport, error) {
	pool, err := authorities(root, own, c, log)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"acquire::https::sslcert", "acquire::http::proxy-auto-detect", "acquire::http::proxyautodetect"} {
		if c[name] != "" {
			log.Warn("setting of apt.conf not supported, ignored", "setting", name)
		}
	}
	if c.is("acquire::https::verify-peer", false) || c.is("acquire::https::verify-host", false) {
		log.Warn("apt.conf switches the check of certificates off; here it stays on: mount the authority's certificate into /usr/local/share/ca-certificates")
	}
	t := &transport{logins: readLogins(root, log)}
	proxies := proxies{conf: c, getenv: getenv, logins: t.logins}
	t.Transport = plainTransport(pool, proxies.choose)
	return t, nil
}

// plainTransport returns a transport without logins.
func plainTransport(pool *x509.CertPool, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	return &http.Transport{
		Proxy:                 proxy,
		DialContext:           (&net.Dialer{Timeout: dialLimit, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   dialLimit,
		ResponseHeaderTimeout: time.Minute,
		MaxIdleConnsPerHost:   parallel,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}
}

// proxies chooses the proxy of a request.
type proxies struct {
	conf   conf
	getenv func(string) string
	logins []login
}

// variable reads HTTP_PROXY, HTTPS_PROXY or NO_PROXY. Lower case has precedence, as in curl and apt.
func (p proxies) variable(name string) string {
	return cmp.Or(p.getenv(strings.ToLower(name)), p.getenv(name))
}

// choose follows apt: apt.conf for this host, then its general setting, for https with http's settings as a
// fallback, then the environment. NO_PROXY always counts. "DIRECT", or "false" as many users write, means no
// proxy.
func (p proxies) choose(r *http.Request) (*url.URL, error) {
	text := p.setting(r.URL)
	if text == "" {
		if text = p.variable(strings.ToUpper(r.URL.Scheme) + "_PROXY"); text != "" && !strings.Contains(text, "://") {
			text = "http://" + text
		}
	}
	if text == "" || strings.EqualFold(text, "DIRECT") || strings.EqualFold(text, "false") || exempt(p.variable("NO_PROXY"), r.URL) {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		// The error does not have the text, because that may contain a password.
		return nil, fmt.Errorf("the proxy for %s, in apt.conf or the environment, is not a URL such as \"http://host:port\"", r.URL.Host)
	}
	if u.Scheme == "socks5h" { // apt's name for what net/http calls socks5: the proxy resolves names
		u.Scheme = "socks5"
	}
	if l, ok := find(p.logins, u); ok && u.User == nil {
		u.User = url.UserPassword(l.user, l.password)
	}
	return u, nil
}

// exempt says whether NO_PROXY names the host: an address, a network, a name with those below it, or "*". golang.org/x/net
// would do that with 180 kB of tables of international names in the node's program.
func exempt(list string, u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	addr, _ := netip.ParseAddr(host)
	for rule := range strings.SplitSeq(strings.ToLower(list), ",") {
		rule = strings.TrimSpace(rule)
		network, err := netip.ParsePrefix(rule)
		name := strings.TrimPrefix(strings.TrimPrefix(rule, "*"), ".")
		switch {
		case rule == "*", err == nil && network.Contains(addr):
			return true
		case name != "" && (name == host || name == strings.ToLower(u.Host) || strings.HasSuffix(host, "."+name)):
			return true
		}
	}
	return false
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
