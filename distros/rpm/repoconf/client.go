package repoconf

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/confdir"
	"github.com/driver-container/driver-container/distros/fetch"
)

// Access is the input from which the clients of sources are made.
type Access struct {
	Fetch *fetch.Client // for sources without settings of their own
	// Root and Machine are the file systems that hold certificates: that of the base and that of
	// this machine. Each may be nil.
	Root, Machine fs.FS
}

// Client returns Fetch, or a copy of it with its own transport if the source needs one. The
// source's user name and password are sent only to the hosts of prefixes.
func (a Access) Client(s Source, prefixes []string) (*fetch.Client, error) {
	if s.SSL == (SSL{}) && s.Proxy == "" && s.Username == "" && s.Password == "" && s.Query == "" {
		return a.Fetch, nil
	}
	client, err := a.ownClient(s, prefixes)
	if err != nil {
		return nil, distros.BadSources("%s: source %s: %w", s.Origin, s.ID, err)
	}
	return client, nil
}

func (a Access) ownClient(s Source, prefixes []string) (*fetch.Client, error) {
	h := http.Client{}
	if a.Fetch.HTTP != nil {
		h = *a.Fetch.HTTP
	}
	inner := h.Transport
	if inner == nil {
		inner = http.DefaultTransport
	}
	if s.SSL != (SSL{}) || s.Proxy != "" {
		known, ok := inner.(*http.Transport)
		if !ok {
			return nil, fmt.Errorf(
				"certificates and proxies cannot be set on a transport of type %T",
				inner,
			)
		}
		transport := known.Clone()
		if err := a.configure(transport, s); err != nil {
			return nil, err
		}
		inner = transport
	}
	if s.Username != "" || s.Password != "" || s.Query != "" {
		auth := authorised{inner: inner, user: s.Username, password: s.Password, query: s.Query}
		for _, p := range prefixes {
			u, err := url.Parse(p)
			if err != nil {
				continue
			}
			auth.hosts = append(auth.hosts, u.Scheme+"://"+u.Host)
		}
		inner = auth
	}
	h.Transport = inner
	client := *a.Fetch
	client.HTTP = &h
	return &client, nil
}

func (a Access) configure(t *http.Transport, s Source) error {
	switch s.Proxy {
	case "":
	case "none":
		t.Proxy = nil
	default:
		u, err := url.Parse(s.Proxy)
		if err != nil {
			return errors.New("proxy is not a URL")
		}
		t.Proxy = http.ProxyURL(u)
	}
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config := t.TLSClientConfig
	if s.SSL.NoVerify {
		if !s.GPGCheck && !s.RepoGPGCheck && s.Key == "" {
			return errors.New("sslverify=0, and no signature is checked either; set gpgcheck=1")
		}
		config.InsecureSkipVerify = true //nolint:gosec // the source says so: its signatures bind what it serves
	}
	if s.SSL.CA != "" {
		pem, err := a.machineFile(s.SSL.CA)
		if err != nil {
			return fmt.Errorf("sslcacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("sslcacert: %s holds no certificate in PEM", s.SSL.CA)
		}
	}
	if s.SSL.Cert == "" {
		return nil
	}
	pair, err := a.clientCertificate(s.SSL)
	if err != nil {
		return fmt.Errorf("sslclientcert: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return nil
}

// clientCertificate reads a certificate and its key. If the files that redhat.repo names do not
// exist, it uses the only pair among the mounted entitlements: the host's redhat.repo may have been
// written for an older pair.
func (a Access) clientCertificate(s SSL) (tls.Certificate, error) {
	key := cmp.Or(s.Key, s.Cert)
	cert, lacksCert := a.machineFile(s.Cert)
	private, lacksKey := a.machineFile(key)
	err := cmp.Or(lacksCert, lacksKey)
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(s.Cert, "/entitlement") {
		c, k, found := a.onlyEntitlement()
		if found {
			return tls.X509KeyPair(c, k)
		}
	}
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, private)
	if err != nil {
		return pair, fmt.Errorf("%s with %s: %w", s.Cert, key, err)
	}
	return pair, nil
}

// entitlementFolders are the folders of a subscription's certificates, on a host and mounted into a
// container.
var entitlementFolders = []string{
	"run/secrets/etc-pki-entitlement",
	"etc/pki/entitlement-host",
	"etc/pki/entitlement",
}

func (a Access) onlyEntitlement() (cert, key []byte, ok bool) {
	for _, root := range []fs.FS{a.Machine, a.Root} {
		if root == nil {
			continue
		}
		for _, dir := range entitlementFolders {
			names, err := confdir.List(root, dir)
			if err != nil {
				continue
			}
			isCert := func(name string) bool { return !strings.HasSuffix(name, "-key.pem") }
			keys := slices.DeleteFunc(names, isCert)
			if len(keys) != 1 {
				continue
			}
			key, err1 := confdir.Read(root, keys[0])
			cert, err2 := confdir.Read(root, strings.TrimSuffix(keys[0], "-key.pem")+".pem")
			if err1 == nil && err2 == nil {
				return cert, key, true
			}
		}
	}
	return nil, nil, false
}

// mounted says where container runtimes mount the folders of a subscribed host.
var mounted = []struct{ host, container string }{
	{"etc/pki/entitlement-host/", "run/secrets/etc-pki-entitlement/"},
	{"etc/pki/entitlement/", "run/secrets/etc-pki-entitlement/"},
	{"etc/rhsm-host/", "run/secrets/rhsm/"},
	{"etc/rhsm/", "run/secrets/rhsm/"},
}

// machineFile reads a file by its absolute path in the base or on the machine, or from the folder
// where it would be mounted.
func (a Access) machineFile(name string) ([]byte, error) {
	clean := strings.TrimPrefix(path.Clean("/"+strings.TrimPrefix(name, "file://")), "/")
	candidates := []string{clean}
	for _, m := range mounted {
		if rest, ok := strings.CutPrefix(clean, m.host); ok {
			candidates = append(candidates, m.container+rest)
		}
	}
	for _, root := range []fs.FS{a.Root, a.Machine} {
		if root == nil {
			continue
		}
		for _, p := range candidates {
			data, err := confdir.Read(root, p)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return data, err
		}
	}
	return nil, fmt.Errorf(
		"%s is neither in the base nor on this machine; of a subscription, mount /etc/pki/entitlement as "+
			"/run/secrets/etc-pki-entitlement and /etc/rhsm as /run/secrets/rhsm: %w",
		name,
		fs.ErrNotExist,
	)
}

// authorised adds the credentials to requests to the source's own hosts, and not to requests to
// other hosts after a redirect.
type authorised struct {
	inner                 http.RoundTripper
	hosts                 []string // scheme and host
	user, password, query string
}

func (a authorised) RoundTrip(req *http.Request) (*http.Response, error) {
	if slices.Contains(a.hosts, req.URL.Scheme+"://"+req.URL.Host) {
		req = req.Clone(req.Context())
		if a.user != "" || a.password != "" {
			req.SetBasicAuth(a.user, a.password)
		}
		if a.query != "" && req.URL.RawQuery == "" {
			req.URL.RawQuery = a.query
		}
	}
	return a.inner.RoundTrip(req)
}
