package headers

import (
	"archive/tar"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// rpmFolder is the folder in which more repositories can be mounted.
const rpmFolder = "/etc/yum.repos.d"

// rpmManager implements manager for rpm packages and the repositories of yum, dnf and zypper. It
// does not look at the packages that the image has: that would need readers for rpm's databases,
// which the node's program does not use otherwise, and the header packages of these systems depend
// on no particular version of anything except each other.
type rpmManager struct {
	*fetcher
	distro   distros.RPM
	arch     string // in rpm's terms
	http     *fetch.Client
	clients  *rpm.Clients    // of the repositories that had the packages
	keys     pgp.Ring        // for packages of an index that is not signed
	searched map[string]bool // repositories by their addresses, so that none is asked twice
}

// rpm returns the manager with its client. Proxies, certificates and logins of single repositories
// come from their configuration.
func (f *fetcher) rpm() (m manager, done func(), err error) {
	d, ok := f.distro.(distros.RPM)
	arch, known := distros.LookupArch(f.Arch)
	if !ok || !known {
		return nil, nil, fmt.Errorf("%s has no rpm packages for %s", f.distro.ID(), f.Arch)
	}
	pool, err := authorities(f.files, f.own(), nil, f.Log)
	if err != nil {
		return nil, nil, err
	}
	env := environment(f.Getenv).ProxyFunc()
	transport := plainTransport(pool, func(r *http.Request) (*url.URL, error) { return env(r.URL) })
	return &rpmManager{
		fetcher: f, distro: d, arch: arch.Kernel, searched: map[string]bool{},
		http: &fetch.Client{
			Store:     f.store,
			HTTP:      &http.Client{Transport: transport},
			Attempts:  attempts,
			UserAgent: "driver-entrypoint",
		},
	}, transport.CloseIdleConnections, nil
}

func (f *rpmManager) client(url string) (*fetch.Client, error) { return f.clients.For(url) }

// trust reads the keys that may sign packages of these repositories.
func (f *rpmManager) trust(o rpm.Options) (err error) {
	f.keys, err = o.Keyring()
	slices.Sort(f.keys.Notes)
	for _, note := range slices.Compact(f.keys.Notes) {
		f.Log.Warn("a key is not used", "reason", note)
	}
	return err
}

// members checks the package's own signature where the repository's index is not signed.
func (f *rpmManager) members(
	in io.Reader,
	p distros.Package,
	add func(h *tar.Header, r io.Reader) error,
) error {
	file, err := rpmfile.Open(in)
	if err != nil {
		return err
	}
	m, err := file.Header.Metadata()
	if err != nil {
		return err
	}
	// An unsigned index may present an old package with a valid signature as a new one.
	if want, err := rpmfile.ParseEVR(p.Version); err != nil || m.Name != p.Name ||
		m.Arch != p.Arch ||
		rpmfile.Compare(m.EVR, want) != 0 {
		return fmt.Errorf(
			"%w: it calls itself %.100q %.100q of %.20q",
			ErrPackage,
			m.Name,
			m.EVR,
			m.Arch,
		)
	}
	if len(p.Keys) > 0 {
		if _, err := file.Verify(f.keys, p.Keys); err != nil {
			return err
		}
	}
	return file.Payload(add)
}
