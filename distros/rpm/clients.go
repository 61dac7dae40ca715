package rpm

import (
	"net/url"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// Clients know how to talk to the hosts of sources: with the certificates, the proxy and the credentials that a source
// names. Packages must be downloaded by them as well. Safe for concurrent use once made.
type Clients struct {
	base *fetch.Client
	own  []ownClient
}

// ownClient is the client of one source.
type ownClient struct {
	prefixes []string // URLs it is for
	client   *fetch.Client
	err      error
}

// OpenClients makes the clients for the sources of the options, without asking any host: for those who know from elsewhere,
// say a lock file, which packages to download. Only Fetch, Root, Machine, Sources, Vars, Arch and Mirror are used. Hosts that
// a mirror list names are not known; Releases.Clients knows them.
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

// For is the client for a URL: that of the source whose folder it is below, or else of one on the same host, whose packages may lie
// beside its folder. It is an error when that source needs files that are not there.
func (c *Clients) For(rawURL string) (*fetch.Client, error) {
	best, length := ownClient{client: c.base}, -1
	for _, own := range c.own {
		for _, p := range own.prefixes {
			switch {
			case repoconf.HasURLPrefix(rawURL, p) && len(p) > length:
				best, length = own, len(p)
			case length < 0 && sameHost(rawURL, p):
				best, length = own, 0
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

// access is how the options say to talk to sources.
func (o Options) access() repoconf.Access {
	return repoconf.Access{Fetch: o.Fetch, Root: o.Root, Machine: o.Machine}
}
