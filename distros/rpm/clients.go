package rpm

import (
	"net/url"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// Clients holds the HTTP clients for the hosts of sources, with the certificates, the proxy and the
// credentials that each source names. Packages must be downloaded with them as well. A Clients
// value is safe for concurrent use.
type Clients struct {
	base *fetch.Client
	own  []ownClient
}

// ownClient is the client of one source.
type ownClient struct {
	prefixes []string // the URLs that it is for
	client   *fetch.Client
	err      error
}

// OpenClients returns the clients for the sources of the options without contacting any host. It is
// for callers that know from elsewhere, a lock file for example, which packages to download. It
// uses only Fetch, Root, Machine, Sources, Vars, Arch and Mirror. It does not know the hosts that a
// mirror list names; Releases.Clients does.
func OpenClients(o Options) (*Clients, error) {
	sources, _, err := o.sources()
	if err != nil {
		return nil, err
	}
	c := &Clients{base: o.Fetch}
	for _, s := range sources {
		client, err := o.access().Client(s, s.BaseURLs)
		c.own = append(c.own, ownClient{s.BaseURLs, client, err})
	}
	return c, nil
}

// For returns the client for a URL: that of the source whose folder the URL is below, otherwise
// that of a source on the same host, because packages may lie beside a source's folder, otherwise
// the base client. It returns an error if that source needs files that are missing.
func (c *Clients) For(rawURL string) (*fetch.Client, error) {
	best := ownClient{client: c.base}
	length := -1
	for _, own := range c.own {
		for _, p := range own.prefixes {
			switch {
			case distros.HasURLPrefix(rawURL, p) && len(p) > length:
				best = own
				length = len(p)
			case length < 0 && sameHost(rawURL, p):
				best = own
				length = 0
			}
		}
	}
	return best.client, best.err
}

func sameHost(a, b string) bool {
	u, err1 := url.Parse(a)
	v, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && u.Host != "" && u.Scheme == v.Scheme && u.Host == v.Host
}

// access returns the parts of the options that a source's client is made of.
func (o Options) access() repoconf.Access {
	return repoconf.Access{Fetch: o.Fetch, Root: o.Root, Machine: o.Machine}
}
